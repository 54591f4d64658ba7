import { isObject } from '../../../crds/settings/json.ts'
import type { ClaimsMap } from '../authz/claims.ts'
import type { Status } from './official-meta.ts'

/** A version of a server as the store has it. `document` is JSON text. */
export interface GateVersion {
  readonly name: string
  readonly version: string
  readonly status: Status
  readonly claims: ClaimsMap
  readonly document: string
  /** True if the version comes from a Kubernetes source. Other writers of documents could name any object in them. */
  readonly isOfCluster: boolean
}

const PUBLISHER_PROVIDED = 'io.modelcontextprotocol.registry/publisher-provided'
const KUBERNETES = ['kind', 'namespace', 'name', 'uid'] as const

/** Returns a row of the gate as JSON text: what a gateway needs to find its backends, and the claims. */
export function gateRow({ name, version, status, claims, document, isOfCluster }: GateVersion): string {
  const { remotes, packages, _meta } = JSON.parse(document) as Readonly<Record<string, unknown>>
  return JSON.stringify({
    name,
    version,
    status,
    claims,
    remotes: picked(remotes, ['type', 'url']),
    packages: picked(packages, ['registryType', 'registryBaseUrl', 'identifier', 'version', 'fileSha256']),
    kubernetes: isOfCluster ? findKubernetes(_meta) : undefined,
  })
}

function picked(list: unknown, members: readonly string[]): object[] {
  if (!Array.isArray(list)) return []
  return list.filter(isObject).map((item) => pickTexts(item, members))
}

function pickTexts(item: Readonly<Record<string, unknown>>, members: readonly string[]): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const member of members) {
    const value = Object.hasOwn(item, member) ? item[member] : undefined
    if (typeof value === 'string') texts[member] = value
  }
  return texts
}

/** Returns the object that an entry of a cluster stands for (`sources/kubernetes`); undefined if it stands for none. */
function findKubernetes(meta: unknown): object | undefined {
  const publishers = listValues(readMember(meta, PUBLISHER_PROVIDED))
  return publishers
    .flatMap(listValues)
    .map((block) => readMember(readMember(block, 'metadata'), 'kubernetes'))
    .filter(isObject)
    .map((found) => pickTexts(found, KUBERNETES))
    .find((named) => KUBERNETES.every((member) => named[member] !== undefined))
}

const readMember = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined)
const listValues = (value: unknown): unknown[] => (isObject(value) ? Object.values(value) : [])
