import type { ByteSource } from '../../operations.ts'
import type { Answer, ObjectHandler } from '../handler.ts'
import { readObject } from './read-object.ts'
import type { ObjectReading } from './read-object.ts'

/** As GetObject, of which the length of the body is told, and nothing is read. */
export const headObject: ObjectHandler = (request, bucket, key, context) => {
  const reading = readObject(request, bucket, key, context)
  return reading instanceof Promise ? reading.then(answerOf) : answerOf(reading)
}

function answerOf({ selection, status, contentType, objectHeaders, headers }: ObjectReading): Answer {
  const lengthBytes = selection.to - selection.from
  return { status, objectHeaders, headers, body: { contentType, lengthBytes, source: UNREAD } }
}

const UNREAD: ByteSource = { next: () => Promise.resolve(null), close: () => {} }
