/** What a component shows of something that is loaded, and loaded again. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { asRefusal } from './request.ts'
import type { Refusal } from './request.ts'

/** Time after which a failed request for something in sight is repeated. */
export const RETRY_MS = 2000

/** Asks again if the reason of the failure may pass, unless the request is aborted by then. */
export function againLater({ mayPass }: Refusal, { signal }: AbortController, ask: () => void): void {
  if (mayPass) setTimeout(() => signal.aborted || ask(), RETRY_MS)
}

/** For a hidden tab: runs as soon as it is visible. */
export const onceVisible = (run: () => void, signal?: AbortSignal): void =>
  document.addEventListener('visibilitychange', run, { once: true, ...(signal && { signal }) })

export interface Loaded<Value> {
  /** The last one that arrived; it stays while the next one is on its way, and when that fails. */
  readonly value: Value | null
  /** Why the last try failed; null: it did not. */
  readonly problem: Refusal | null
  readonly reload: () => void
}

/**
 * @param keys   name what is loaded: when they change, the old value is dropped
 * @param everyMs loads again so often while the tab is visible, and as soon as it is; 0: once, or until it is there
 */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  keys: readonly unknown[],
  everyMs = 0,
): Loaded<Value> {
  const key = JSON.stringify(keys)
  const [state, setState] = useState<{ key: string; value: Value | null; problem: Refusal | null }>({
    key,
    value: null,
    problem: null,
  })
  const [turn, setTurn] = useState(0)
  const current = useRef(load)
  current.current = load

  useEffect(() => {
    const leaving = new AbortController()
    let timer = 0
    const again = (): void => {
      if (everyMs > 0 && !leaving.signal.aborted) timer = setTimeout(run, everyMs)
    }
    let isFirst = true
    const run = (): void => {
      if (document.hidden && !isFirst) return onceVisible(run, leaving.signal)
      isFirst = false
      void loadOnce().then(again)
    }
    const loadOnce = async (): Promise<void> => {
      try {
        const value = await current.current(leaving.signal)
        if (!leaving.signal.aborted) setState({ key, value, problem: null })
      } catch (error) {
        if (leaving.signal.aborted) return
        const problem = asRefusal(error)
        setState((before) => ({ key, value: before.key === key ? before.value : null, problem }))
        if (everyMs === 0) againLater(problem, leaving, run)
      }
    }
    run()
    return () => {
      clearTimeout(timer)
      leaving.abort()
    }
  }, [key, everyMs, turn])

  const reload = useCallback(() => setTurn((before) => before + 1), [])
  return state.key === key ? { ...state, reload } : { value: null, problem: null, reload }
}

export interface Action {
  readonly isRunning: boolean
  readonly problem: Refusal | null
  /** Does nothing while a task runs. */
  readonly run: (task: () => Promise<unknown>) => void
}

/** An action of the visitor, which runs at most once at a time, and its refusal. */
export function useAction(): Action {
  const [state, setState] = useState<{ isRunning: boolean; problem: Refusal | null }>({
    isRunning: false,
    problem: null,
  })
  const isRunning = useRef(false)
  const run = useCallback((task: () => Promise<unknown>) => {
    if (isRunning.current) return
    isRunning.current = true
    setState({ isRunning: true, problem: null })
    const ended = (problem: Refusal | null): void => {
      isRunning.current = false
      setState({ isRunning: false, problem })
    }
    task().then(
      () => ended(null),
      (error: unknown) => ended(asRefusal(error)),
    )
  }, [])
  return { ...state, run }
}
