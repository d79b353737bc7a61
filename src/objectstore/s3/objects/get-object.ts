import type { ByteSource } from '../../operations.ts'
import type { ObjectHandler } from '../handler.ts'
import { readObject } from './read-object.ts'

export const getObject: ObjectHandler = async (request, bucket, key, context) => {
  const { object, selection, status, contentType, objectHeaders, headers } = await readObject(
    request,
    bucket,
    key,
    context,
  )
  const { from, to } = selection
  if (from === to) return { status, objectHeaders, headers, body: { contentType, bytes: '' } }
  const source = await begun(object.read(from, to))
  return { status, objectHeaders, headers, body: { contentType, lengthBytes: to - from, source } }
}

/** Once its first piece is there: what is wrong with that is refused with its reason, and nothing is broken off. */
async function begun(source: ByteSource): Promise<ByteSource> {
  if (source.whole !== undefined) return source
  let first = await source.next()
  return {
    async next() {
      const piece = first
      first = null
      return piece ?? source.next()
    },
    close: () => source.close(),
  }
}
