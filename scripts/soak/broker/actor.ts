/** An actor that works on the broker. */
import { Actor as AnyActor } from '../actor.ts'
import type { Client } from './client.ts'
import type { Scene } from './scene.ts'

export abstract class Actor extends AnyActor {
  protected readonly scene: Scene
  protected readonly client: Client

  /** @param pauseMs between two things, about */
  constructor(scene: Scene, seed: number, pauseMs: number) {
    super(seed, pauseMs)
    this.scene = scene
    this.client = scene.newClient()
  }
}
