/** Groups by what they are: equal ones become the same object, so that those of a block are told apart by identity. */
import type { Group } from './block-writer.ts'

export class GroupTable {
  readonly #byKey = new Map<string, number>()
  readonly groups: Group[] = []

  /** Counts the groups that were asked for. The bytes of a new one are copied. */
  numberOf(group: Group): number {
    const { signal, format, source, root } = group
    const parts = [group.resource, group.scope, group.resourceSchemaUrl, group.scopeSchemaUrl]
    const texts = parts.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('latin1'))
    const key = `${signal} ${format} ${source} ${texts.map(({ length }) => length).join(' ')} ${texts.join('')}`
    const known = this.#byKey.get(key)
    if (known !== undefined) return known
    this.#byKey.set(key, this.groups.length)
    const [resource, scope, resourceSchemaUrl, scopeSchemaUrl] = parts.map((part) => Buffer.from(part)) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ]
    return this.groups.push({ signal, format, source, root, resource, scope, resourceSchemaUrl, scopeSchemaUrl }) - 1
  }
}
