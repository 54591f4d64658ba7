import type { Api } from '../request/context.ts'
import type { Operation, OperationDescription } from '../request/operation.ts'
import {
  claimsAnswer,
  claimsBody,
  entryName,
  entryType,
  sourceQuery,
  statusBody,
  versionName,
} from '../schemas/admin.ts'
import { createEntryApi, deleteVersion, getClaims, putClaims, setStatus } from './entry-handlers.ts'

const common = { tag: 'entries', role: 'manageEntries', query: { source: sourceQuery } } as const
const ofClaims = {
  ...common,
  path: '/v1/entries/{type}/{entry}/claims',
  parameters: { type: entryType, entry: entryName },
} as const
const ofVersion = {
  ...common,
  path: '/v1/entries/{type}/{entry}/versions/{version}',
  parameters: { ...ofClaims.parameters, version: versionName },
  errors: ['forbidden_claims', 'read_only', 'not_found', 'invalid_request', 'source_required', 'conflict'],
} as const

const descriptions = {
  getClaims: {
    ...ofClaims,
    id: 'getClaims',
    method: 'get',
    summary: 'Tells the claims of an entry.',
    answers: { 200: { description: 'The claims.', schema: claimsAnswer } },
    errors: ['forbidden_claims', 'not_found', 'invalid_request', 'source_required'],
  },
  putClaims: {
    ...ofClaims,
    id: 'putClaims',
    method: 'put',
    summary: 'Replaces the claims of every version of an entry; `{}` clears them.',
    body: claimsBody,
    answers: { 204: { description: 'Replaced.' } },
    errors: ['forbidden_claims', 'read_only', 'not_found', 'source_required', 'conflict'],
  },
  setStatus: {
    ...ofVersion,
    id: 'setStatus',
    method: 'patch',
    path: `${ofVersion.path}/status`,
    summary: 'Marks a version as deprecated, or as active again.',
    body: statusBody,
    answers: { 204: { description: 'Marked.' } },
  },
  deleteVersion: {
    ...ofVersion,
    id: 'deleteVersion',
    method: 'delete',
    summary: 'Deletes a version; it may be published again.',
    answers: { 204: { description: 'Deleted.' } },
  },
} as const satisfies Record<string, OperationDescription>

/** Published entries: their claims, and the status of their versions. */
export function entryOperations(api: Api): readonly Operation[] {
  const entries = createEntryApi(api)
  return [
    { ...descriptions.getClaims, handle: (c) => getClaims(entries, c) },
    { ...descriptions.putClaims, handle: (c) => putClaims(entries, c) },
    { ...descriptions.setStatus, handle: (c) => setStatus(entries, c) },
    { ...descriptions.deleteVersion, handle: (c) => deleteVersion(entries, c) },
  ]
}
