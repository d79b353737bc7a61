/**
 * The programs under test. When all tests run (`scripts/test.ts`), they are built from the sources, as users install them; they start in less than half
 * the time. Else the sources themselves run, so that nothing has to be built for one file.
 */
import { fileURLToPath } from 'node:url'

/** An entry point, by its path in the repository. */
export type Entry = 'src/start.js' | 'src/cli/mq.js' | 'src/cli/trilog.js'

const tree = new URL(process.env['TRILOG_TESTED_TREE'] ?? '../../', import.meta.url)

export const entryFile = (entry: Entry): string => fileURLToPath(new URL(entry, tree))
