import Type, { type Static } from 'typebox'
import { HEADER_NAME } from '../../../crds/shared/header-rules.ts'
import { duration } from '../../../crds/shared/schema.ts'
import { claims } from './claims.ts'

/** Interval between two polls of a source whose `syncPolicy` does not say. */
export const DEFAULT_INTERVAL = '30s'

/** Exactly one of them says where a source's entries come from. */
export const SOURCE_KINDS = ['git', 'api', 'file', 'managed', 'kubernetes'] as const
export type SourceKind = (typeof SOURCE_KINDS)[number]

const strict = { additionalProperties: false }
const text = (description: string, maxLength = 2048) => Type.String({ description, minLength: 1, maxLength })
const url = (description: string) => Type.String({ description, pattern: '^https?://[^\\s]+$', maxLength: 2048 })

const headerName = (description: string) =>
  Type.String({ description, pattern: HEADER_NAME, minLength: 1, maxLength: 255 })

/** A name that stands in paths: a DNS label (RFC 1123). */
export const label = (description: string) =>
  Type.String({ description, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63 })

const gitPlace = {
  repository: text('URL of the repository.'),
  branch: Type.Optional(text('Branch; absent: the repository’s default.', 255)),
  tag: Type.Optional(text('Tag.', 255)),
  commit: Type.Optional(Type.String({ description: 'Commit, in full.', pattern: '^[0-9a-f]{40}([0-9a-f]{24})?$' })),
  path: Type.Optional(Type.String({ description: 'A registry file.', minLength: 1, default: 'registry.json' })),
}
const gitOptions = { description: 'A file in a git repository.', ...strict }
const git = Type.Object(
  {
    ...gitPlace,
    auth: Type.Optional(
      Type.Object(
        {
          username: text('User name.', 255),
          passwordFile: text('File of the password or token; read anew each time.'),
        },
        strict,
      ),
    ),
  },
  gitOptions,
)

const apiPlace = {
  endpoint: url('Base URL, without `/v0.1`.'),
  timeout: Type.Optional(duration('registry', 'Longest wait for an answer.', { default: '10s' })),
}
const apiOptions = { description: 'Another registry (MCP registry API v0.1).', ...strict }
const api = Type.Object(
  {
    ...apiPlace,
    headersFile: Type.Optional(text('File of headers that are sent along, one `Name: value` a line.')),
    headers: Type.Optional(
      Type.Array(
        Type.Object(
          { name: headerName('Name of the header.'), valueFile: text('File of its value; read anew each time.') },
          strict,
        ),
        { description: 'Headers whose values are in files of their own.', maxItems: 64 },
      ),
    ),
  },
  apiOptions,
)

const filePlace = {
  url: Type.Optional(url('Where the registry file is fetched.')),
  data: Type.Optional(Type.String({ description: 'The registry file itself (JSON).', minLength: 1 })),
  timeout: Type.Optional(duration('registry', 'Longest wait for the URL; 30s when left out.')),
}
const fileOptions = { description: 'A registry file.', ...strict }
const file = Type.Object(
  { path: Type.Optional(text('A registry file on this machine.')), ...filePlace },
  { ...fileOptions, exactlyOne: ['path', 'url', 'data'] },
)

const kubernetesPlace = {
  namespaces: Type.Array(Type.String({ pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63 }), {
    description: 'Namespaces that are read.',
    minItems: 1,
    maxItems: 256,
    uniqueItems: true,
  }),
  group: Type.Optional(
    Type.String({
      description: 'API group of the kinds, and prefix of the annotations; absent: portico.dev.',
      pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
      maxLength: 253,
    }),
  ),
}
const kubernetesOptions = { description: 'MCP servers of the cluster.', ...strict }
const kubernetes = Type.Object(
  {
    ...kubernetesPlace,
    apiServer: Type.Optional(
      Type.Object(
        {
          url: url('Base URL.'),
          tokenFile: text('File of the bearer token; read anew each time.'),
          caFile: text('PEM file of the CA.'),
        },
        { description: 'The API server; absent: that of the pod this runs in.', ...strict },
      ),
    ),
  },
  kubernetesOptions,
)

const patterns = (description: string) => {
  const texts = Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 253 }), { maxItems: 256 }))
  return Type.Optional(Type.Object({ include: texts, exclude: texts }, { description, ...strict }))
}

/** What a source is, besides its name. */
export const sourceFields = {
  git: Type.Optional(git),
  api: Type.Optional(api),
  file: Type.Optional(file),
  managed: Type.Optional(Type.Object({}, { description: 'Entries are published through the admin API.', ...strict })),
  kubernetes: Type.Optional(kubernetes),
  syncPolicy: Type.Optional(
    Type.Object(
      { interval: duration('registry', 'Time between two syncs of the source.', { default: DEFAULT_INTERVAL }) },
      strict,
    ),
  ),
  filter: Type.Optional(
    Type.Object(
      {
        names: patterns('By name; globs in which `*` crosses `/`.'),
        tags: patterns('By tag, as it is written.'),
      },
      { description: 'Which entries are kept. What is excluded is out, even where it is included too.', ...strict },
    ),
  ),
  claims: Type.Optional(
    claims('What a caller must hold to manage it; entries of git, api and file sources inherit them.'),
  ),
}

/**
 * The same for whoever makes a source through the admin API: without what names a file of this machine. They may not make
 * the server read its own files or send them elsewhere.
 */
export const apiSourceFields = {
  ...sourceFields,
  git: Type.Optional(Type.Object(gitPlace, gitOptions)),
  api: Type.Optional(Type.Object(apiPlace, apiOptions)),
  file: Type.Optional(Type.Object(filePlace, { ...fileOptions, exactlyOne: ['url', 'data'] })),
  kubernetes: Type.Optional(Type.Object(kubernetesPlace, kubernetesOptions)),
}

export const sourceSchema = Type.Object(
  { name: label('Unique name.'), ...sourceFields },
  { ...strict, exactlyOne: SOURCE_KINDS },
)

export type SourceConfig = Static<typeof sourceSchema>

/** The kind of a source that has passed the check: it has exactly one. */
export function kindOf(source: Omit<SourceConfig, 'name'>): SourceKind {
  return SOURCE_KINDS.find((kind) => source[kind] !== undefined) ?? 'managed'
}
