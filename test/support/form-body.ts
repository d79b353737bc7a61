export type FormPart = readonly [name: string, content: string, filename?: string]

/** `multipart/form-data` as browsers write it. */
export function formBody(boundary: string, parts: readonly FormPart[]): Buffer {
  const texts = parts.map(([name, content, filename]) => {
    const file = filename === undefined ? '' : `; filename="${filename}"`
    return `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${content}\r\n`
  })
  return Buffer.from(`${texts.join('')}--${boundary}--\r\n`)
}
