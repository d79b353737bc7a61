/** Looks at any key and lists, while all other actors work. */
import assert from 'node:assert/strict'
import { listedPage, lookHead, lookRange, lookTags, lookWhole, noteListedSeen } from './looks.ts'
import { BUCKETS } from './scene.ts'
import { StoreActor } from './actor.ts'

export class Reader extends StoreActor {
  protected async act(): Promise<void> {
    if (this.chance(20)) return this.#list()
    const isThere = this.chance(85)
    const keys = this.scene.keys.filter((ledger) => !isThere || ledger.known?.object !== null)
    const key = keys[this.random.between(0, keys.length - 1)]
    if (key === undefined) return
    if (this.chance(40)) return void (await lookWhole(this.client, key))
    if (this.chance(50)) return lookRange(this.client, key, this.random)
    if (this.chance(60)) return lookHead(this.client, key)
    await lookTags(this.client, key)
  }

  /** Pages from somewhere on: what may be on each is what may be there while it is asked for. */
  async #list(): Promise<void> {
    const bucket = this.random.pick(BUCKETS)
    const names = this.scene.keysOf(bucket).map(({ key }) => key)
    let after = this.chance(50) ? '' : (names[this.random.between(0, names.length - 1)] ?? '')
    let next = after === '' ? '' : `&start-after=${encodeURIComponent(after)}`
    for (let page = 0; page < 3; page++) {
      const froms = new Map(this.scene.keysOf(bucket).map((ledger) => [ledger, ledger.look()]))
      const max = this.random.between(1, 100)
      const reply = await this.client.ask('GET', `/${bucket}?list-type=2&max-keys=${max}${next}`)
      if (reply === null) return
      const { keys, next: token } = listedPage(reply)
      const last = token === null ? null : keys.at(-1)!.key
      const listed = new Map(keys.map((each) => [each.key, each]))
      assert.deepEqual(
        keys.map(({ key }) => key),
        [...listed.keys()].sort(),
        'in order, none twice',
      )
      for (const [ledger] of froms) {
        const isOnPage = ledger.key > after && (last === null || ledger.key <= last)
        if (!isOnPage) froms.delete(ledger)
      }
      noteListedSeen(froms, listed)
      for (const key of listed.keys()) assert(this.scene.key(bucket, key), `${bucket} lists ${key}`)
      if (token === null) return
      after = last!
      next = `&continuation-token=${encodeURIComponent(token)}`
    }
  }
}
