import { timePasses } from '../../support/waiting.ts'
import { answerWithinTimeout } from './node-process.ts'
import type { NodeProcess } from './node-process.ts'
import type { NodeReply } from './workers/cluster-node.ts'

/** Clients outside of all nodes, with a ledger of the answers: checks that no read is older than an earlier answer. */
export class Ledger {
  /** By id of a write: its place in the log, as the answer said. */
  readonly acknowledged = new Map<number, number>()
  readonly problems: string[] = []
  answered = 0
  #told = 0
  #nextId = 0
  #isEnded = false

  end(): void {
    this.#isEnded = true
  }

  /** A client. It asks the node that answered last; without an answer, the next one. */
  async run(nodes: () => readonly NodeProcess[], first: number): Promise<void> {
    for (let at = first; !this.#isEnded;) {
      const node = nodes()[at % 3]!
      const floor = this.#told
      const isWrite = this.#nextId % 3 !== 0
      this.#nextId += 1
      const id = this.#nextId
      const answer = node.ask(isWrite ? { kind: 'write', id } : { kind: 'read' })
      const told = answer.then((reply) => this.#note(reply, floor, isWrite ? id : null))
      const reply = await answerWithinTimeout(answer)
      if (reply?.isAnswered === true) {
        await told
        this.answered += 1
      } else {
        at += 1 // a late answer of this node is still noted
        await timePasses(20)
      }
    }
  }

  #note(reply: NodeReply | null, floor: number, id: number | null): void {
    if (reply?.isAnswered !== true) return
    const { version = 0 } = reply
    if (version < floor) this.problems.push(`version ${version} was told after ${floor}`)
    this.#told = Math.max(this.#told, version)
    if (id !== null) this.acknowledged.set(id, version)
  }
}
