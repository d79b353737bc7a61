#!/usr/bin/env node
/** Entry point of `trilog`. */
import { withTypeScript } from '../node-version.js'

await withTypeScript(() => import('./trilog.ts'))
