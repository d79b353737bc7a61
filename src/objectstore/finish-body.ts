import type { BodyWriter, ReceivedBody } from './operations.ts'

/** `finish` as a promise. @throws S3Error what `finish` failed with */
export const finishBody = (writer: BodyWriter): Promise<ReceivedBody> =>
  new Promise((received, failed) => writer.finish(received, failed))
