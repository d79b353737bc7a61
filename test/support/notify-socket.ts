/** The socket of systemd to which a process with `Type=notify` tells its state. */
import assert from 'node:assert/strict'
import koffi from 'koffi'

const AF_UNIX = 1
const SOCK_DGRAM_NONBLOCK = 2 | 0o4000
const MESSAGE_BYTES_MAX = 4096

const libc = koffi.load('libc.so.6')
const socket = libc.func('int socket(int, int, int)')
const bind = libc.func('int bind(int, const uint8_t *, uint32_t)')
const recv = libc.func('int64_t recv(int, void *, size_t, int)')
const close = libc.func('int close(int)')

export class NotifySocket {
  readonly #descriptor: number = socket(AF_UNIX, SOCK_DGRAM_NONBLOCK, 0)
  readonly #received: string[] = []

  /** @param name a path, or `@` before an abstract name */
  constructor(name: string) {
    const path = Buffer.from(name.startsWith('@') ? `\0${name.slice(1)}` : `${name}\0`)
    const address = Buffer.concat([Buffer.from([AF_UNIX, 0]), path])
    assert.equal(bind(this.#descriptor, address, address.byteLength), 0)
  }

  /** All messages so far, in order. */
  received(): readonly string[] {
    const message = Buffer.alloc(MESSAGE_BYTES_MAX)
    for (;;) {
      const byteLength = Number(recv(this.#descriptor, message, message.byteLength, 0))
      if (byteLength < 0) return this.#received
      this.#received.push(message.toString('utf8', 0, byteLength))
    }
  }

  close(): void {
    close(this.#descriptor)
  }
}
