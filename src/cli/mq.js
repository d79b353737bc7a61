#!/usr/bin/env node
/** Entry point of `mq`, the broker's command. */
import { withTypeScript } from '../node-version.js'

await withTypeScript(() => import('./mq.ts'))
