import type { ObjectHandler } from '../handler.ts'
import { readObject } from './read-object.ts'

export const getObject: ObjectHandler = async (request, bucket, key, context) => {
  const { object, selection, status, contentType, headers } = await readObject(request, bucket, key, context)
  const { from, to } = selection
  if (from === to) return { status, headers, body: { contentType, bytes: '' } }
  return { status, headers, body: { contentType, lengthBytes: to - from, source: object.read(from, to) } }
}
