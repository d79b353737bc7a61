/**
 * One process per data directory. The lock is an abstract Unix socket named after the directory's device and inode: the kernel gives
 * it back when its process ends, however it ends, so there is no stale lock to clean up. LOCK holds the pid, for people.
 *
 * Such sockets belong to a network namespace: two containers that mount one directory do not see each other's.
 */
import fs from 'node:fs'
import net from 'node:net'
import { StoreError } from '../errors.ts'
import type { DirectoryLock } from './environment.ts'
import { nodeFiles } from './node-files.ts'

const LOCK_NAME = 'LOCK'

/** @throws StoreError unavailable data_directory_locked, naming the process that has it */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  nodeFiles.makeDirectory(directory)
  const { dev, ino } = fs.statSync(directory, { bigint: true })
  const server = net.createServer((socket) => socket.destroy())
  const path = `${directory}/${LOCK_NAME}`
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'EADDRINUSE' ? lockedBy(directory, path) : error),
    )
    server.listen(`\0trilog-${dev}-${ino}`, resolve)
  })
  server.unref()
  fs.writeFileSync(path, `${process.pid}\n`)
  return { release: () => new Promise((resolve) => server.close(() => resolve())) }
}

function lockedBy(directory: string, path: string): StoreError {
  const pid = fs.existsSync(path) ? fs.readFileSync(path, 'utf8').trim() : 'unknown'
  return new StoreError(
    'unavailable',
    'data_directory_locked',
    `${directory} is in use by process ${pid}: stop it, or choose another data directory`,
  )
}
