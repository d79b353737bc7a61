/** Copies bytes of an object into a new body, at the pace of the slower one. */
import { finishBody } from '../../finish-body.ts'
import type { BodyWriter, ByteSource, ReceivedBody } from '../../operations.ts'

/** When this rejects, the writer is abandoned; the source is closed in any case. @throws S3Error of either */
export async function copyBody(source: ByteSource, writer: BodyWriter): Promise<ReceivedBody> {
  let onDrain = (): void => {}
  writer.onDrain(() => onDrain())
  try {
    for (let bytes = await source.next(); bytes !== null; bytes = await source.next()) {
      if (writer.write(bytes)) continue
      await new Promise<void>((resolve) => {
        onDrain = resolve
      })
    }
    return await finishBody(writer)
  } catch (error) {
    writer.abandon()
    throw error
  } finally {
    source.close()
  }
}
