/** Entry point of `npm start`. */
import { withTypeScript } from './node-version.js'

await withTypeScript(() => import('./main.ts'))
