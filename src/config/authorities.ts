/** Authorities that certificates of other parties are checked against, as their file was when it was read last. */
import { readAuthorities } from './tls.ts'

export class Authorities {
  readonly #file: string
  #pem: string
  readonly #listeners = new Set<(pem: string) => void>()

  /** @throws StoreError whose message continues the setting's name: 'names a file …' */
  constructor(file: string) {
    this.#file = file
    this.#pem = readAuthorities(file)
  }

  get pem(): string {
    return this.#pem
  }

  /** @throws as the constructor does: the authorities stay as they are */
  readAgain(): void {
    this.#pem = readAuthorities(this.#file)
    for (const each of this.#listeners) each(this.#pem)
  }

  /** @returns prevents further calls */
  onReadAgain(listener: (pem: string) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }
}
