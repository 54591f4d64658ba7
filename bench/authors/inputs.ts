/** The inputs of authors to be checked, by size: each as long as its field allows and as costly as we can make it. */
import { authzFindings } from '../../dataplane/config/check/authz.ts'
import { checkRegistry } from '../../dataplane/config/check/registry.ts'
import { ConfigError } from '../../dataplane/config/load.ts'
import { configParser } from '../../dataplane/config/read/parse.ts'
import { registryConfigSchema } from '../../dataplane/config/registry.ts'
import { parseDocuments } from '../../operator/cluster/files/document.ts'

export interface Input {
  /** The largest size that is worth measuring: at the field's bound, or beyond it. */
  readonly most: number
  run(size: number): void
}

const repeat = (count: number, part: (index: number) => string, between = '') =>
  Array.from({ length: count }, (_, index) => part(index)).join(between)
const PERMIT = 'permit(principal, action, resource);'

const group = (id: number) => ({ type: 'T', id: String(id) })
const entities = (count: number, parentsOf: (id: number) => readonly number[]) =>
  JSON.stringify(
    Array.from({ length: count }, (_, id) => ({ uid: group(id), attrs: {}, parents: parentsOf(id).map(group) })),
  )
const checkEntities = (text: string) => authzFindings({ policies: [PERMIT], entitiesJson: text }, '')
const checkPolicies = (policies: string[]) => authzFindings({ policies }, '')

const parse = configParser(registryConfigSchema, checkRegistry)
const BASE = 'sources: []\nregistries: []\nauth: {mode: anonymous}\n'
function checkConfig(text: string): void {
  try {
    parse(text)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
}

export const inputs: Readonly<Record<string, Input>> = {
  'entities in a chain': {
    most: 8_000,
    run: (size) => checkEntities(entities(size, (id) => (id + 1 < size ? [id + 1] : []))),
  },
  'entities in one circle': { most: 8_000, run: (size) => checkEntities(entities(size, (id) => [(id + 1) % size])) },
  'entities of one parent': { most: 8_000, run: (size) => checkEntities(entities(size, (id) => (id > 0 ? [0] : []))) },
  'parents of one entity': {
    most: 4_000,
    run: (size) => checkEntities(entities(1, () => Array.from({ length: size }, (_, id) => id + 1))),
  },
  policies: {
    most: 1_000,
    run: (size) =>
      checkPolicies(Array.from({ length: size }, (_, id) => `permit(principal, action, resource == Tool::"${id}");`)),
  },
  'members of a set in a policy': {
    most: 8_000,
    run: (size) =>
      checkPolicies([`permit(principal, action, resource) when { [${repeat(size, String, ',')}].contains(1) };`]),
  },
  'keys of a configYAML': { most: 64_000, run: (size) => checkConfig(BASE + repeat(size, (id) => `k${id}: 1\n`)) },
  'keys of one of its maps': {
    most: 64_000,
    run: (size) => checkConfig(`${BASE}x: {${repeat(size, (id) => `k${id}: 1`, ',')}}\n`),
  },
  'a key of it again and again': {
    most: 64_000,
    run: (size) => checkConfig(`${BASE}x: {${repeat(size, () => 'k: 1', ',')}}\n`),
  },
  'its sources': {
    most: 32_000,
    run: (size) =>
      checkConfig(
        `registries: []\nauth: {mode: anonymous}\nsources:\n${repeat(size, (id) => `- {name: s${id}, x: 1}\n`)}`,
      ),
  },
  'its aliases': {
    most: 32_000,
    run: (size) => checkConfig(`${BASE}x: [${repeat(size, (id) => `&a${id} 1,*a${id}`, ',')}]\n`),
  },
  'keys of a manifest': { most: 64_000, run: (size) => void parseDocuments(repeat(size, (id) => `k${id}: 1\n`)) },
  'aliases of a manifest': {
    most: 32_000,
    run: (size) => void parseDocuments(`x: [${repeat(size, (id) => `&a${id} 1,*a${id}`, ',')}]\n`),
  },
}
