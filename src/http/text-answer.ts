/** Short answers that people read in a terminal: they end with a newline, which is white space in JSON. */
import type { Exchange, HeaderLines } from './exchange.ts'

export const JSON_TYPE = 'application/json'

/** As a JSON string. */
export const answerText = (exchange: Exchange, status: number, text: string, headers?: HeaderLines): void =>
  answerLine(exchange, status, JSON.stringify(text), headers)

/** @param json without a line break */
export const answerLine = (exchange: Exchange, status: number, json: string, headers?: HeaderLines): void =>
  exchange.answer(status, JSON_TYPE, `${json}\n`, headers)
