/** A process that dies between two changes of its files. */
import type { Files } from '../../src/log/files.ts'
import type { SimFiles } from './sim-files.ts'

export class Stopped extends Error {}

/** Files on which the first `after` changes succeed; then the process is dead, and every later change throws and does not happen. */
export function dyingFiles(files: SimFiles, after: number): Files {
  let left = after
  const step = (): void => {
    if (left-- <= 0) throw new Stopped()
  }
  return new Proxy(files, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (typeof member !== 'function') return member
      return (...given: unknown[]) => {
        if (['create', 'rename', 'removeFile', 'syncDirectory'].includes(String(name))) step()
        const result = (member as (...given: unknown[]) => unknown).apply(target, given)
        if (name !== 'create') return result
        const file = result as ReturnType<Files['create']>
        return {
          read: (into: Uint8Array, at: number) => file.read(into, at),
          writev(parts: readonly Uint8Array[], at: number) {
            step()
            file.writev(parts, at)
          },
          fdatasync() {
            step()
            file.fdatasync()
          },
          truncate: (bytes: number) => file.truncate(bytes),
          size: () => file.size(),
          close: () => file.close(),
        }
      }
    },
  })
}
