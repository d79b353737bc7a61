import type { ByteSource } from '../../operations.ts'
import type { ObjectHandler } from '../handler.ts'
import { readObject } from './read-object.ts'

/** As GetObject, of which the length of the body is told, and nothing is read. */
export const headObject: ObjectHandler = async (request, bucket, key, context) => {
  const { selection, status, contentType, objectHeaders, headers } = await readObject(request, bucket, key, context)
  const lengthBytes = selection.to - selection.from
  return { status, objectHeaders, headers, body: { contentType, lengthBytes, source: UNREAD } }
}

const UNREAD: ByteSource = { next: () => Promise.resolve(null), close: () => {} }
