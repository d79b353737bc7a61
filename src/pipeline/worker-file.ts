/** Where the files of threads are: TypeScript in a checkout, JavaScript in a package, as this file is. */
import { extname } from 'node:path'
import { treeFile } from '../tree.ts'

const extension = extname(import.meta.url)

/** @param name of a file in `workers`, without its extension */
export const workerFile = (name: string): URL => treeFile(`workers/${name}${extension}`)
