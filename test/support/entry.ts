/**
 * The programs under test: what was built of the sources when all tests run (`scripts/test.ts`), as users install it and as it starts in less than half
 * the time; else the sources themselves, so that nothing has to be built for one file.
 */
import { fileURLToPath } from 'node:url'

/** A file of the repository that runs. */
export type Entry = 'src/start.js' | 'src/cli/mq.js' | 'src/cli/trilog.js'

const tree = new URL(process.env['TRILOG_TESTED_TREE'] ?? '../../', import.meta.url)

export const entryFile = (entry: Entry): string => fileURLToPath(new URL(entry, tree))
