/** Answers survey questions on a query thread: from a task to the body of an answer. */
import { Deadline } from '../query/deadline.ts'
import type { QueryEngineParts } from '../query/engine.ts'
import { SegmentReader } from '../query/segment-reader.ts'
import type { QueryAnswer, QueryTask, Question } from '../query/task.ts'
import { BundleSummaries } from './bundle-summaries.ts'
import { answerDatasets } from './datasets.ts'
import { answerFields } from './fields.ts'
import { answerHistogram } from './histogram.ts'
import type { SurveyQuestion, SurveyTask } from './question.ts'

const KINDS: ReadonlySet<unknown> = new Set<SurveyQuestion['kind']>(['datasets', 'histogram', 'fields'])

export const isSurvey = (task: QueryTask<Question>): task is SurveyTask =>
  'kind' in task.request && KINDS.has(task.request.kind)

export class SurveyEngine {
  readonly #reader: SegmentReader
  readonly #nowMs: () => number
  readonly #summaries = new BundleSummaries()

  constructor({ nowMs, ...parts }: QueryEngineParts) {
    this.#reader = new SegmentReader(parts)
    this.#nowMs = nowMs
  }

  run(task: SurveyTask): QueryAnswer {
    const { request } = task
    const deadline = new Deadline(task.deadlineAtMs, this.#nowMs)
    return this.#reader.answer(() => {
      deadline.check()
      switch (request.kind) {
        case 'datasets':
          return answerDatasets(this.#reader, this.#summaries, { ...task, request }, deadline)
        case 'histogram':
          return answerHistogram(this.#reader, { ...task, request }, deadline)
        case 'fields':
          return answerFields(this.#reader, { ...task, request }, deadline)
      }
    })
  }
}
