import type { Context } from 'hono'
import { decodeEntryCursor, encodeEntryCursor } from '../../catalog/cursor.ts'
import type { EntryPageQuery, EntryRecord, RecordPage } from '../../store/database/records.ts'
import { answerJson } from '../request/caller-memory.ts'
import type { Api } from '../request/context.ts'
import type { Operation, RegistryEnv } from '../request/operation.ts'
import { QueryFindings, readLimit } from '../request/query-findings.ts'
import {
  cursor,
  limit,
  registryEntriesAnswer,
  registryName,
  sourceEntriesAnswer,
  sourceName,
} from '../schemas/admin.ts'
import { param, reached } from './reach.ts'
import { entryShape } from './shape.ts'

const BOUND = 'It has at most 8 MiB, and at most the newest 100 versions of each entry.'

/** Lists all that a source or a registry holds, unshadowed, with claims, for those who manage it. */
export function listingOperations({ reader }: Api): readonly Operation[] {
  return [
    {
      id: 'listSourceEntries',
      tag: 'sources',
      role: 'manageSources',
      method: 'get',
      path: '/v1/sources/{source}/entries',
      parameters: { source: sourceName },
      query: { cursor, limit },
      summary: 'Lists the entries of a source.',
      answers: { 200: { description: `A page of entries, by type and name. ${BOUND}`, schema: sourceEntriesAnswer } },
      errors: ['not_found', 'invalid_request'],
      async handle(c) {
        const { name } = reached(c.var.actor, await reader.source(param(c, 'source')))
        const page = readPageRequest(c, `source ${name}`)
        return answerPage(c, page, await reader.entriesOfSource(name, page), entryShape)
      },
    },
    {
      id: 'listRegistryEntries',
      tag: 'registries',
      role: 'manageRegistries',
      method: 'get',
      path: '/v1/registries/{registry}/entries',
      parameters: { registry: registryName },
      query: { cursor, limit },
      summary: 'Lists the entries of all sources of a registry, including those that an earlier source hides.',
      answers: {
        200: {
          description: `A page of entries, by type, name and the order of sources. ${BOUND}`,
          schema: registryEntriesAnswer,
        },
      },
      errors: ['not_found', 'invalid_request'],
      async handle(c) {
        const { name } = reached(c.var.actor, await reader.registry(param(c, 'registry')))
        const page = readPageRequest(c, `registry ${name}`)
        const entries = await reader.entriesOfRegistry(name, page)
        return answerPage(c, page, entries, (entry) => ({ ...entryShape(entry), source: entry.source }))
      },
    },
  ]
}

/** A request for a page of entries, and the list that its cursors belong to. */
interface EntryPageRequest extends EntryPageQuery {
  readonly owner: string
}

function readPageRequest(c: Context<RegistryEnv>, owner: string): EntryPageRequest {
  const findings = new QueryFindings()
  const limit = readLimit(c.req.query('limit'), findings)
  const cursorText = c.req.query('cursor') || undefined
  const after = cursorText === undefined ? undefined : decodeEntryCursor(cursorText, owner)
  if (cursorText !== undefined && after === undefined) findings.add('cursor', 'is not a cursor of this list')
  findings.throwIfAny()
  return { limit, after, owner }
}

function answerPage(
  c: Context<RegistryEnv>,
  { owner }: EntryPageRequest,
  { entries, more }: RecordPage,
  shape: (entry: EntryRecord) => object,
): Response {
  const last = more ? entries.at(-1) : undefined
  const metadata = { count: entries.length, ...(last !== undefined && { nextCursor: encodeEntryCursor(last, owner) }) }
  return answerJson(c, { entries: entries.map(shape), metadata })
}
