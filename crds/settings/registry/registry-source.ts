/** A source of a registry: of MCPRegistry, of the registry's file, and of the admin API. */
import { filePath, inFile } from '../file-form.ts'
import { headerName } from '../headers.ts'
import { limits } from '../limits.ts'
import { configMapKeyRef, secretKeyRef } from '../references.ts'
import { countSet, exactlyOne } from '../rules.ts'
import { defaulted, duration, label, list, map, object, Type, text, url } from '../schema.ts'

export const DEFAULT_INTERVAL = '30s'
export const API_TIMEOUT = '10s'
export const FILE_TIMEOUT = '30s'
export const REGISTRY_FILE = 'registry.json'

/** Claims of a source, a registry or an entry: pairs of strings that are compared with those of tokens. */
export const claims = (description: string, options: { readonly min?: number } = {}) =>
  map(description, text('registry', 'The value.', { max: limits.text }), {
    max: 32,
    longestKey: limits.name,
    ...options,
  })

const patterns = (description: string) => {
  const globs = (what: string) =>
    Type.Optional(list(what, text('registry', 'A pattern.', { min: 1, max: limits.name }), { max: 256 }))
  return Type.Optional(
    object(description, {
      include: globs('Kept; absent: all.'),
      exclude: globs('Left out, even if `include` matches.'),
    }),
  )
}

const git = object(
  'A file in a git repository.',
  {
    repository: text('registry', 'URL of the repository.', { min: 1, max: limits.url }),
    branch: Type.Optional(text('registry', 'Branch; absent: the repository’s default.', { min: 1, max: limits.name })),
    tag: Type.Optional(text('registry', 'Tag.', { min: 1, max: limits.name })),
    commit: Type.Optional(
      text('registry', 'Commit, in full.', { max: limits.name, pattern: '^[0-9a-f]{40}([0-9a-f]{24})?$' }),
    ),
    path: defaulted(text('registry', 'File in the repository.', { min: 1, default: REGISTRY_FILE })),
    auth: Type.Optional(
      object('Credentials.', {
        username: text('registry', 'User name.', { min: 1, max: limits.name }),
        passwordSecretRef: inFile('passwordFile', secretKeyRef('registry', 'Password or token.')),
      }),
    ),
  },
  {
    rules: [
      {
        rule: `${countSet(['branch', 'tag', 'commit'])} <= 1`,
        message: 'set at most one of branch, tag and commit',
      },
    ],
  },
)

const api = object('Another registry (MCP registry API v0.1).', {
  endpoint: url('registry', 'Base URL, without `/v0.1`.'),
  timeout: defaulted(duration('registry', 'Longest wait for an answer.', { default: API_TIMEOUT })),
  headers: Type.Optional(
    list(
      'Headers whose values are in Secrets.',
      object('A header.', {
        name: headerName('registry', 'Name of the header.'),
        valueSecretRef: inFile('valueFile', secretKeyRef('registry', 'The Secret with the value.')),
      }),
      // A CEL rule that names differ in more than case costs too much here. The configuration's own check enforces it.
      { type: { map: ['name'] } },
    ),
  ),
})

const PLACES = ['configMapRef', 'path', 'url', 'data']

const file = object(
  'A registry file.',
  {
    configMapRef: Type.Optional(
      inFile('path', configMapKeyRef('operator', 'A ConfigMap that holds the file.', { key: REGISTRY_FILE })),
    ),
    path: Type.Optional(filePath('registry', 'Path in the pod.')),
    url: Type.Optional(url('registry', 'URL of the file.')),
    data: Type.Optional(text('registry', 'The file itself (JSON).', { min: 1, max: limits.file })),
    timeout: Type.Optional(duration('registry', `Longest wait for the URL; ${FILE_TIMEOUT} when left out.`)),
  },
  {
    exactlyOne: PLACES,
    rules: [exactlyOne(...PLACES), { rule: '!has(self.timeout) || has(self.url)', message: 'timeout is for url' }],
  },
)

/** The namespaces of a source that reads MCP servers of a cluster. */
export const namespaces = list(
  'Namespaces that are read. Absent: that of this object.',
  label('registry', 'A namespace.'),
  { type: 'set', min: 1, max: 256 },
)

const kubernetes = object(
  'MCP servers of the cluster.',
  { namespaces: Type.Optional(namespaces) },
  { readBy: 'registry' },
)

/** The kinds of a source. A source has exactly one. */
export const SOURCE_KINDS = ['git', 'api', 'file', 'managed', 'kubernetes'] as const

export const source = object(
  'A source of entries.',
  {
    name: label('registry', 'Unique name.'),
    git: Type.Optional(git),
    api: Type.Optional(api),
    file: Type.Optional(file),
    managed: Type.Optional(object('Entries are published through the admin API.', {}, { readBy: 'registry' })),
    kubernetes: Type.Optional(kubernetes),
    syncPolicy: Type.Optional(
      object('When the source is read.', {
        interval: defaulted(
          duration('registry', 'Time between two polls of the source.', { default: DEFAULT_INTERVAL }),
        ),
      }),
    ),
    filter: Type.Optional(
      object('Which entries are kept. `exclude` wins over `include`.', {
        names: patterns('By name; globs in which `*` crosses `/`.'),
        tags: patterns('By tag, as it is written.'),
      }),
    ),
    claims: Type.Optional(
      claims(
        'Claims of the source: what a caller must hold to manage it. Entries inherit them, except in managed and kubernetes sources.',
      ),
    ),
  },
  {
    exactlyOne: SOURCE_KINDS,
    rules: [
      { rule: `${countSet(SOURCE_KINDS)} == 1`, message: `set exactly one of ${SOURCE_KINDS.join(', ')}` },
      {
        rule: '!has(self.syncPolicy) || !(has(self.managed) || has(self.kubernetes))',
        message: 'syncPolicy is not for managed and kubernetes',
      },
    ],
  },
)
