import type { Api } from '../request/context.ts'
import type { Operation, OperationDescription } from '../request/operation.ts'
import {
  newSourceBody,
  sourceBody,
  sourceDetailAnswer,
  sourceName,
  sourcesAnswer,
  syncState,
  wait,
} from '../schemas/admin.ts'
import {
  createSource,
  createSourceApi,
  deleteSource,
  getSource,
  listSources,
  putSource,
  syncSource,
} from './source-handlers.ts'

const common = { tag: 'sources', role: 'manageSources' } as const
const ofOne = { ...common, path: '/v1/sources/{source}', parameters: { source: sourceName } } as const

const descriptions = {
  list: {
    ...common,
    id: 'listSources',
    method: 'get',
    path: '/v1/sources',
    summary: 'Lists the sources that the caller may manage.',
    answers: { 200: { description: 'The sources, by name.', schema: sourcesAnswer } },
    errors: [],
  },
  create: {
    ...common,
    id: 'createSource',
    method: 'post',
    path: '/v1/sources',
    summary: 'Creates a source.',
    body: newSourceBody,
    answers: { 201: { description: 'Created.', schema: sourceDetailAnswer } },
    errors: ['claims_not_subset', 'conflict'],
  },
  get: {
    ...ofOne,
    id: 'getSource',
    method: 'get',
    summary: 'Gets a source, with its settings and the state of its syncs.',
    answers: { 200: { description: 'The source.', schema: sourceDetailAnswer } },
    errors: ['not_found'],
  },
  put: {
    ...ofOne,
    id: 'putSource',
    method: 'put',
    summary: 'Creates a source, or replaces its settings and claims.',
    body: sourceBody,
    answers: {
      200: { description: 'Changed.', schema: sourceDetailAnswer },
      201: { description: 'Created.', schema: sourceDetailAnswer },
    },
    errors: ['not_found', 'claims_not_subset', 'read_only', 'conflict'],
  },
  delete: {
    ...ofOne,
    id: 'deleteSource',
    method: 'delete',
    summary: 'Deletes a source with all its entries.',
    answers: { 204: { description: 'Deleted.' } },
    errors: ['not_found', 'read_only', 'conflict'],
  },
  sync: {
    ...ofOne,
    id: 'syncSource',
    method: 'post',
    path: '/v1/sources/{source}/sync',
    summary: 'Starts a full pass over a source.',
    query: { wait },
    answers: {
      200: { description: 'The pass has ended.', schema: syncState },
      202: { description: 'The pass was started.', schema: syncState },
    },
    errors: ['not_found', 'conflict', 'invalid_request'],
  },
} as const satisfies Record<string, OperationDescription>

/** Sources: where entries come from. */
export function sourceOperations(api: Api): readonly Operation[] {
  const sources = createSourceApi(api)
  return [
    { ...descriptions.list, handle: (c) => listSources(sources, c) },
    { ...descriptions.create, handle: (c) => createSource(sources, c) },
    { ...descriptions.get, handle: (c) => getSource(sources, c) },
    { ...descriptions.put, handle: (c) => putSource(sources, c) },
    { ...descriptions.delete, handle: (c) => deleteSource(sources, c) },
    { ...descriptions.sync, handle: (c) => syncSource(sources, c) },
  ]
}
