/** An actor that works on the object store. */
import type { OutgoingHttpHeaders } from 'node:http'
import { Actor } from '../actor.ts'
import type { Client } from './client.ts'
import type { ExpectedObject } from './key-ledger.ts'
import type { Scene } from './scene.ts'

type Attributes = Omit<ExpectedObject, 'body' | 'etag'>

export abstract class StoreActor extends Actor {
  protected readonly scene: Scene
  protected readonly client: Client

  /** @param pauseMs between two things, about */
  constructor(scene: Scene, seed: number, pauseMs: number) {
    super(seed, pauseMs)
    this.scene = scene
    this.client = scene.newClient()
  }

  /** Attributes that no other object has. */
  protected newAttributes(): Attributes {
    const id = this.random.uint32().toString(16)
    return {
      contentType: this.random.pick(['text/plain', 'application/octet-stream', 'image/png']),
      metadata: { id, ...(this.chance(30) && { note: 'n'.repeat(this.random.between(1, 1000)) }) },
      tags: this.chance(30) ? this.newTags() : {},
    }
  }

  protected newTags(): Record<string, string> {
    const count = this.random.between(1, 4)
    return Object.fromEntries(Array.from({ length: count }, (_, i) => [`tag-${i}`, String(this.random.uint32())]))
  }

  protected headersOf({ contentType, metadata, tags }: Attributes): OutgoingHttpHeaders {
    const pairs = Object.entries(tags).map(([key, value]) => `${key}=${value}`)
    return {
      'content-type': contentType,
      ...Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-obj-meta-${name}`, value])),
      ...(pairs.length > 0 && { 'x-obj-tagging': pairs.join('&') }),
    }
  }
}

export const sequenceOf = (header: string | null): number | null => (header === null ? null : Number(header))
