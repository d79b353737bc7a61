import type { BodyWriter, ReceivedBody } from './operations.ts'

/** For a caller that waits for a body. @throws S3Error as `finish` tells */
export const finished = (writer: BodyWriter): Promise<ReceivedBody> =>
  new Promise((received, failed) => writer.finish(received, failed))
