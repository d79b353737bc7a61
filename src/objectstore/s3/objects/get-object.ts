/** GetObject, and HeadObject, which tells the length of the body and reads nothing. */
import type { ByteSource } from '../../operations.ts'
import type { Answer, MaybePromise, ObjectHandler } from '../handler.ts'
import { readObject } from './read-object.ts'
import type { ObjectReading } from './read-object.ts'

/** Without a promise when the object is in memory and short. */
export const getObject: ObjectHandler = (request, bucket, key, context) => {
  const reading = readObject(request, bucket, key, context)
  return reading instanceof Promise ? reading.then(withBody) : withBody(reading)
}

function withBody(reading: ObjectReading): MaybePromise<Answer> {
  const { from, to } = reading.selection
  if (from === to) return answerWith(reading, null)
  const source = reading.object.read(from, to)
  if (source.whole !== undefined) return answerWith(reading, source)
  return begun(source).then((begun) => answerWith(reading, begun))
}

/** @param source null: there are no bytes */
function answerWith(reading: ObjectReading, source: ByteSource | null): Answer {
  const { selection, status, contentType, objectHeaders, headers } = reading
  const lengthBytes = selection.to - selection.from
  const body = source === null ? { contentType, bytes: '' } : { contentType, lengthBytes, source }
  return { status, objectHeaders, headers, body }
}

/** Waits for the first piece: if that cannot be read, the request is refused with the reason, and no answer is broken off. */
async function begun(source: ByteSource): Promise<ByteSource> {
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

/** As GetObject, but it tells the length of the body and reads nothing. */
export const headObject: ObjectHandler = (request, bucket, key, context) => {
  const reading = readObject(request, bucket, key, context)
  return reading instanceof Promise ? reading.then(withLength) : withLength(reading)
}

function withLength({ selection, status, contentType, objectHeaders, headers }: ObjectReading): Answer {
  const lengthBytes = selection.to - selection.from
  return { status, objectHeaders, headers, body: { contentType, lengthBytes, source: UNREAD } }
}

const UNREAD: ByteSource = { next: () => Promise.resolve(null), close: () => {} }
