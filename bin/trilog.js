#!/usr/bin/env node
/** The command `trilog`: in a checkout its sources run, in a package, which has none, what was built from them. */
import { existsSync } from 'node:fs'

const isCheckout = existsSync(new URL('../src', import.meta.url))
await import(isCheckout ? '../src/cli/trilog.js' : '../dist/src/cli/trilog.js')
