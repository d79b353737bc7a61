/** Where a process of Node is that tells nothing any more: its debugger is asked, which stops even a loop without an end. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** A flag of the process that may be asked: its debugger, once it is woken, listens at any free port. */
export const INSPECTED = '--inspect-port=0'
/** JavaScript that runs stops within it. A thread that waits for another one does not. */
const STOP_MS_MAX = 10_000
const FRAMES_MAX = 20

interface Frame {
  readonly functionName: string
  readonly location: { readonly scriptId: string; readonly lineNumber: number }
}

/** What is used of the events of the debugger's protocol. */
type Event =
  | { readonly method: 'Debugger.scriptParsed'; readonly params: { readonly scriptId: string; readonly url: string } }
  | { readonly method: 'Debugger.paused'; readonly params: { readonly callFrames: readonly Frame[] } }

/** @param child was started with `INSPECTED`, and its standard error is a stream of text */
export async function whatItDoes(child: ChildProcess): Promise<string> {
  const inTime = AbortSignal.timeout(STOP_MS_MAX)
  try {
    const address = debuggerOf(child, inTime)
    child.kill('SIGUSR1') // wakes its debugger
    return ['in', ...(await stackAt(await address, inTime))].join('\n    at ')
  } catch {
    return 'while it ran no JavaScript'
  }
}

async function debuggerOf({ stderr }: ChildProcess, signal: AbortSignal): Promise<string> {
  for (let said = ''; ;) {
    const [text] = (await once(stderr!, 'data', { signal })) as [string]
    said += text
    const found = /Debugger listening on (ws:\S+)\s/.exec(said)
    if (found !== null) return found[1]!
  }
}

async function stackAt(address: string, signal: AbortSignal): Promise<readonly string[]> {
  const socket = new WebSocket(address)
  try {
    const urls = new Map<string, string>()
    const paused = new Promise<readonly Frame[]>((resolve) =>
      socket.addEventListener('message', ({ data }) => {
        const { method, params } = JSON.parse(String(data)) as Event
        if (method === 'Debugger.scriptParsed') urls.set(params.scriptId, params.url)
        if (method === 'Debugger.paused') resolve(params.callFrames)
      }),
    )
    await once(socket, 'open', { signal })
    for (const [id, method] of ['Debugger.enable', 'Debugger.pause'].entries())
      socket.send(JSON.stringify({ id, method }))
    const late = once(signal, 'abort').then(() => Promise.reject(new Error('it does not stop')))
    const frames = await Promise.race([paused, late])
    return frames.slice(0, FRAMES_MAX).map(({ functionName, location: { scriptId, lineNumber } }) => {
      const file = (urls.get(scriptId) ?? '').replace(`file://${process.cwd()}/`, '')
      return `${functionName} (${file}:${lineNumber + 1})`
    })
  } finally {
    socket.close()
  }
}
