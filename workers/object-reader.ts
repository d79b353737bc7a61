/** Reads the bucket that queries are answered from: see src/logstore/bucket/object-reader.ts. Ends when it is told to stop. */
import { StoreError } from '../src/errors.ts'
import { openObjectClient } from '../src/logstore/bucket/object-client.ts'
import { ObjectReader } from '../src/logstore/bucket/object-reader.ts'
import type {
  ObjectReaderControl,
  ObjectReaderData,
  ObjectReaderMessage,
} from '../src/logstore/bucket/remote-protocol.ts'
import { isStop } from '../src/pipeline/lane-task.ts'
import type { LaneTask } from '../src/pipeline/lane-task.ts'

export default async function run({ port, data }: LaneTask<ObjectReaderData>): Promise<void> {
  const post = (message: ObjectReaderMessage): void => port.postMessage(message)
  const stopped = new Promise<void>((resolve) => {
    port.on('message', (message: unknown) => {
      if (isStop(message)) resolve()
      else void heed(message as ObjectReaderControl) // its owner posts nothing else
    })
  })
  const opened = open(data, post)
  const heed = async (control: ObjectReaderControl): Promise<void> => {
    const reader = await opened
    switch (control.kind) {
      case 'connect':
        return reader?.connect(control.access)
      case 'refresh':
        return reader?.refresh()
      case 'distrust':
        return reader?.dropDamaged(control.base)
    }
  }
  await stopped
  const reader = await opened
  reader?.close()
  port.close()
}

async function open(
  data: ObjectReaderData,
  post: (message: ObjectReaderMessage) => void,
): Promise<ObjectReader | null> {
  try {
    return new ObjectReader(await openObjectClient(data.client), data, post)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    post({ kind: 'refused', problem: error.message })
    return null
  }
}
