/**
 * One process per data directory. The lock is an abstract Unix socket named after the directory's device and inode: the kernel gives
 * it back when its process ends, however it ends, so there is no stale lock to clean up. LOCK holds the pid, for people.
 *
 * Such sockets belong to a network namespace: two containers that mount one directory do not see each other's.
 */
import fs from 'node:fs'
import net from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { StoreError } from '../errors.ts'
import type { DirectoryLock } from './environment.ts'
import { nodeFiles } from './node-files.ts'

const LOCK_NAME = 'LOCK'

/** A directory without LOCK is new; who holds its name had one that is deleted, and has so long to go. */
const REUSED_INODE_TRIES = 40
const REUSED_INODE_WAIT_MS = 50

/** @throws StoreError unavailable data_directory_locked, naming the process that has it */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  nodeFiles.makeDirectory(directory)
  const { dev, ino } = fs.statSync(directory, { bigint: true })
  const path = `${directory}/${LOCK_NAME}`
  for (let tries = 1; ; tries++) {
    const server = await listenAlone(`\0trilog-${dev}-${ino}`)
    if (server) {
      server.unref()
      const release = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()))
      try {
        fs.writeFileSync(path, `${process.pid}\n`)
      } catch (error) {
        await release()
        throw error
      }
      return { release }
    }
    if (fs.existsSync(path) || tries === REUSED_INODE_TRIES) throw lockedBy(directory, path)
    await wait(REUSED_INODE_WAIT_MS)
  }
}

/** Null when the name is taken. */
function listenAlone(name: string): Promise<net.Server | null> {
  const server = net.createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(null)
      else reject(error)
    })
    server.listen(name, () => resolve(server))
  })
}

function lockedBy(directory: string, path: string): StoreError {
  const pid = fs.existsSync(path) ? fs.readFileSync(path, 'utf8').trim() : 'unknown'
  return new StoreError(
    'unavailable',
    'data_directory_locked',
    `${directory} is in use by process ${pid}: stop it, or choose another data directory`,
  )
}
