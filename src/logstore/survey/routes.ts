/** The routes of surveys: datasets, histogram and fields. They take a tenant's slots for queries, and refuse as a query does. */
import type { OperationDocument, Route } from '../../http/routes.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import type { QueryFront } from '../query/query-front.ts'
import {
  DATASETS_PARAMETERS,
  DatasetsReply,
  FieldsReply,
  FieldsRequestBody,
  HistogramReply,
  HistogramRequestBody,
  parseDatasetsRequest,
  parseFieldsRequest,
  parseHistogramRequest,
} from './request.ts'

/**
 * @param forTenants what every route of tenants says about credentials
 * @param rejected   how all of them refuse
 */
export function surveyRoutes(
  queries: QueryFront,
  forTenants: Pick<OperationDocument, 'security' | 'headers'>,
  rejected: OperationDocument['replies'][number],
): readonly Route[] {
  const about = (summary: string, body: object): OperationDocument => ({
    ...forTenants,
    summary,
    replies: [{ status: 200, description: 'the datasets at present', mediaType: JSON_TYPE, schema: body }, rejected],
  })
  const datasets = queries.urlEndpoint(
    {
      ...about('The datasets that the credential may read, and what each holds', DatasetsReply),
      query: DATASETS_PARAMETERS,
    },
    { parse: (query, credential) => parseDatasetsRequest(query, credential.datasets), kind: 'datasets' },
  )
  const histogram = queries.bodyEndpoint(
    {
      ...about('Matching records by time, split by severity or by the most frequent values of a key', HistogramReply),
      requestBody: { mediaTypes: [JSON_TYPE], schema: HistogramRequestBody },
    },
    { parse: parseHistogramRequest, kindOf: () => 'histogram' },
  )
  const fields = queries.bodyEndpoint(
    {
      ...about('Attributes and fields of the matching records, with their most frequent values', FieldsReply),
      requestBody: { mediaTypes: [JSON_TYPE], schema: FieldsRequestBody },
    },
    { parse: parseFieldsRequest, kindOf: () => 'fields' },
  )
  return [
    { method: 'GET', path: '/v1/datasets', endpoint: datasets },
    { method: 'POST', path: '/v1/query/histogram', endpoint: histogram },
    { method: 'POST', path: '/v1/query/fields', endpoint: fields },
  ]
}
