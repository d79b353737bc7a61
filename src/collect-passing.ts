/**
 * Objects that pass, beside a cache of those that stay.
 *
 * While a cache fills, V8 learns that what is made for it lives long, and goes on to put what passes into old memory, too: collecting that took a
 * quarter of the time of small reads.
 */
import { setFlagsFromString } from 'node:v8'

let isAsked = false

/**
 * Has V8 collect early what passes. Call it when a cache keeps its first object, not at the start: V8 takes compiled code only where its flags are
 * those it was compiled with, so each thread that begins later compiles the code of Node and of its modules again.
 */
export function collectPassingEarly(): void {
  if (isAsked) return
  isAsked = true
  setFlagsFromString('--no-allocation-site-pretenuring')
}
