/** What a visitor drags into the page, or chooses: files, and folders with all that is in them. */

export interface NamedFile {
  /** With the folders that were dragged, between slashes. */
  readonly name: string
  readonly file: File
}

export const chosenFiles = (files: Iterable<File>): readonly NamedFile[] =>
  Array.from(files, (file) => ({ name: file.webkitRelativePath || file.name, file }))

/** Call it while the event is handled: what was dragged is gone afterwards. */
export async function droppedFiles({ items }: DataTransfer): Promise<readonly NamedFile[]> {
  const dragged = Array.from(items, (item) => item.webkitGetAsEntry() ?? item.getAsFile())
  const found: NamedFile[] = []
  for (const each of dragged) {
    if (each instanceof File) found.push({ name: each.name, file: each })
    else if (each !== null) found.push(...(await filesOf(each)))
  }
  return found
}

async function filesOf(entry: FileSystemEntry): Promise<readonly NamedFile[]> {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject))
    return [{ name: entry.fullPath.replace(/^\//, ''), file }]
  }
  if (!isFolder(entry)) return []
  const reader = entry.createReader()
  const found: NamedFile[] = []
  for (;;) {
    // It gives some at a time, and none when it has given all.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (some.length === 0) return found
    for (const each of some) found.push(...(await filesOf(each)))
  }
}

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory
