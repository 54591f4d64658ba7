import { instructionsDigest, pageDigest } from '../../../crds/settings/definition-digest.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { readResult } from '../backends/connection/request.ts'
import { PINNED_KINDS, toPinKind } from '../backends/lists/list-kind.ts'
import { ownMeta } from '../backends/session/era.ts'
import { encodeHeaderValue } from '../mcp/eras.ts'
import { memberText } from '../mcp/json.ts'
import { FIRST_OWN_ID, requestText } from '../mcp/rpc-text.ts'
import { computeDigest } from '../pins/definitions.ts'
import type { PinKind, Reason } from '../pins/pins.ts'
import { missingPins } from './approvals.ts'
import type { Gateway } from './gateway.ts'

/** The most pages of a backend that are read for one report. */
const MOST_PAGES = 100

/** A definition, whether or not clients see it. */
interface ReportedDefinition {
  readonly kind: PinKind
  /** Absent for instructions. */
  readonly name?: string
  /** Null if the definition has no valid digest, or the page can't be read. */
  readonly digest: string | null
  readonly state: 'approved' | 'withheld' | 'reported' | 'unchecked'
  readonly reason?: Reason
  /** The text as the backend sent it; null if a page can't be read. */
  readonly text: string | null
}

interface BackendReport {
  readonly name: string
  readonly mode: 'disabled' | 'report' | 'enforce'
  /** False before the first list of tools. */
  readonly isListed: boolean
  readonly definitions: readonly ReportedDefinition[]
  /** The names that have pins and are not listed. */
  readonly missing: readonly { readonly kind: PinKind; readonly name: string }[]
}

export interface ReportOptions {
  readonly backend?: string | undefined
  readonly withPages: boolean
}

/**
 * Reports the current definitions of every backend, to write pins. It contains withheld ones, and every text that some
 * caller sees, so only operators may read it.
 */
export async function reportDefinitions(
  { shared, views }: Gateway,
  { backend: only, withPages }: ReportOptions,
): Promise<{ readonly backends: readonly BackendReport[] }> {
  const backends = shared.backends.filter(({ name }) => only === undefined || name === only)
  const reports = backends.map((backend) => reportOn(backend, views.backendsOf(backend.name), withPages))
  return { backends: await Promise.all(reports) }
}

async function reportOn(backend: Backend, variants: readonly Backend[], withPages: boolean): Promise<BackendReport> {
  const { pins, areEnforced } = backend.definitions
  const all = [backend, ...variants]
  const listed = unique([...all.flatMap(listInstructions), ...all.flatMap(listDefinitions)])
  return {
    name: backend.name,
    mode: pins === undefined ? 'disabled' : areEnforced ? 'enforce' : 'report',
    isListed: all.some(({ received }) => received.tools !== undefined),
    definitions: withPages ? [...listed, ...(await readPages(backend, all))] : listed,
    missing: pins === undefined ? [] : missingPins(pins, all),
  }
}

function findState({ definitions }: Backend, reason: Reason | undefined): Pick<ReportedDefinition, 'state' | 'reason'> {
  if (definitions.pins === undefined) return { state: 'unchecked' }
  if (reason === undefined) return { state: 'approved' }
  return { state: definitions.areEnforced ? 'withheld' : 'reported', reason }
}

function listInstructions(backend: Backend): readonly ReportedDefinition[] {
  const { received, definitions } = backend
  const { instructions: text } = received
  if (text === undefined) return []
  const state = findState(backend, definitions.reasonAgainstInstructions(text))
  return [{ kind: 'instructions', digest: instructionsDigest(text), ...state, text }]
}

const listDefinitions = (backend: Backend): readonly ReportedDefinition[] =>
  PINNED_KINDS.flatMap((list) =>
    (backend.received[list] ?? []).map((item): ReportedDefinition => {
      const kind = toPinKind(list)
      const state = findState(backend, backend.definitions.reasonAgainst(kind, item))
      return { kind, name: item.key, digest: computeDigest(item) ?? null, ...state, text: item.source ?? item.text }
    }),
  )

/** Removes duplicates that several callers' instances contribute. */
function unique(definitions: readonly ReportedDefinition[]): readonly ReportedDefinition[] {
  const seen = new Set<string>()
  return definitions.filter(({ kind, name, text }) => {
    const key = JSON.stringify([kind, name, text])
    return seen.size < seen.add(key).size
  })
}

/** Reads the pages that tools, resources and pins reference. */
async function readPages(backend: Backend, all: readonly Backend[]): Promise<readonly ReportedDefinition[]> {
  const { definitions } = backend
  const uris = new Set<string>(definitions.pins?.names('pages'))
  for (const { received } of all) {
    for (const { app } of received.tools ?? []) if (app?.uri !== undefined) uris.add(app.uri)
    for (const { key } of received.resources) if (definitions.isPage(key)) uris.add(key)
  }
  return Promise.all([...uris].slice(0, MOST_PAGES).map((uri) => readPage(backend, uri)))
}

async function readPage(backend: Backend, uri: string): Promise<ReportedDefinition> {
  const contents = await readContents(backend, uri).catch((error) => {
    backend.log.debug({ err: error }, 'a page can’t be read for a report')
    return undefined
  })
  if (contents === undefined)
    return { kind: 'pages', name: uri, digest: null, ...findState(backend, undefined), text: null }
  const state = findState(backend, backend.definitions.reasonAgainstPage(uri, contents))
  return { kind: 'pages', name: uri, digest: pageDigest(contents) ?? null, ...state, text: contents }
}

/** Reads a resource with the gateway's own identity. Returns the JSON text of its `contents`. */
async function readContents(backend: Backend, uri: string): Promise<string | undefined> {
  const { client, ownSession } = backend
  const { era } = await backend.detect()
  if (era === 'legacy') await ownSession.open()
  const answer = await (era === 'modern'
    ? backend.post({
        headers: [...backend.modernHeaders('resources/read'), 'mcp-name', encodeHeaderValue(uri)],
        body: requestText(FIRST_OWN_ID, 'resources/read', { uri, _meta: ownMeta(client) }),
      })
    : ownSession.post(requestText(ownSession.ownId(), 'resources/read', { uri }), { mayBeLate: true }))
  readResult(answer)
  return memberText(memberText(answer.text, 'result') ?? '', 'contents')
}
