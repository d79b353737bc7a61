/**
 * Records as they are stored, the newest first. A fetch and no EventSource, as credentials go in headers.
 *
 * T1 [exact]    after a lost connection the tail continues behind the last record: none is left out, none comes twice
 * T2 [told]     what the store says it left out is counted and shown
 * T3 [bounded]  ROWS_MAX rows are kept; the oldest ones go
 * T4 [still]    rows are put on top only while the visitor does not read: until then they wait
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { Refusal, asRefusal, openStream } from '../request.ts'
import { rowOf } from './rows.ts'
import type { Row } from './rows.ts'
import type { StoredRecord } from './stored-record.ts'

/** T3 */
const ROWS_MAX = 5000
/** How often records that came are shown. */
const SHOW_MS = 150
const COME_BACK_MS = 1000

interface Event {
  readonly name: string
  readonly id: string
  readonly data: string
}

/** Server-sent events of a text that comes in pieces. */
async function* eventsOf(pieces: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = pieces.getReader()
  const decoder = new TextDecoder()
  let [rest, name, id] = ['', '', '']
  let data: string[] = []
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      const [, field = '', text = ''] = /^(\w*): ?(.*?)\r?$/s.exec(line) ?? []
      if (field === 'event') name = text
      else if (field === 'id') id = text
      else if (field === 'data') data.push(text)
      else if (line.trim() === '') {
        yield { name, id, data: data.join('\n') }
        name = ''
        data = []
      }
    }
  }
}

export interface Tail {
  readonly rows: readonly Row[]
  /** Rows that wait while the visitor reads. */
  readonly waiting: number
  /** T2. Null: some, and the number is unknown. */
  readonly missed: number | null
  readonly isConnected: boolean
  /** Why it ended, or is interrupted. */
  readonly problem: Refusal | null
  /** Called when the visitor begins to read, and when the reading ends. */
  readonly hold: (isReading: boolean) => void
}

/** @param question null: no tail is wanted */
export function useTail(question: { readonly dataset: string; readonly search: string } | null): Tail {
  const key = JSON.stringify(question)
  const [shown, setShown] = useState<{ rows: readonly Row[]; waiting: number; missed: number | null }>({
    rows: [],
    waiting: 0,
    missed: 0,
  })
  const [link, setLink] = useState<{ isConnected: boolean; problem: Refusal | null }>({
    isConnected: false,
    problem: null,
  })
  /** Newest first. */
  const arrived = useRef<Row[]>([])
  const missed = useRef<number | null>(0)
  const isHeld = useRef(false)

  const show = useCallback(() => {
    setShown((before) => {
      if (isHeld.current) return { ...before, waiting: arrived.current.length, missed: missed.current }
      const rows = arrived.current.length === 0 ? before.rows : [...arrived.current, ...before.rows].slice(0, ROWS_MAX)
      arrived.current = []
      return { rows, waiting: 0, missed: missed.current }
    })
  }, [])

  useEffect(() => {
    setShown({ rows: [], waiting: 0, missed: 0 })
    arrived.current = []
    missed.current = 0
    if (question === null) return
    const leaving = new AbortController()
    const { signal } = leaving
    let lastId = ''
    const take = ({ name, id, data }: Event): void => {
      if (id !== '') lastId = id
      if (name === 'end') throw endOf(data)
      if (name === 'missed') {
        const { records } = JSON.parse(data) as { records: number | null } // as the route answers
        missed.current = records === null || missed.current === null ? null : missed.current + records
      } else if (data !== '') {
        arrived.current.unshift(rowOf(JSON.parse(data) as StoredRecord)) // as the route answers
        if (arrived.current.length > ROWS_MAX) arrived.current.length = ROWS_MAX
      }
    }
    const follow = async (): Promise<void> => {
      const path = `/v1/tail?${new URLSearchParams({ ...question }).toString()}`
      const stream = await openStream('logstore', path, lastId === '' ? {} : { 'last-event-id': lastId }, signal)
      setLink({ isConnected: true, problem: null })
      for await (const event of eventsOf(stream)) take(event)
      throw new Refusal(0, 'interrupted', 'The tail was interrupted; it goes on by itself.')
    }
    const run = async (): Promise<void> => {
      while (!signal.aborted) {
        try {
          await follow()
        } catch (error) {
          if (signal.aborted) return
          const problem = asRefusal(error)
          setLink({ isConnected: false, problem })
          if (!problem.isAway) return
          await new Promise((resolve) => setTimeout(resolve, COME_BACK_MS)) // T1
        }
      }
    }
    const timer = setInterval(show, SHOW_MS)
    void run()
    return () => {
      clearInterval(timer)
      leaving.abort()
    }
  }, [key])

  const hold = useCallback((isReading: boolean) => {
    isHeld.current = isReading
    show()
  }, [])
  return { ...shown, ...link, hold }
}

function endOf(data: string): Refusal {
  const { error } = JSON.parse(data) as { error?: { kind?: string; message?: string } } // as the route answers
  return new Refusal(403, error?.kind ?? 'ended', error?.message ?? 'The store ended the tail.')
}
