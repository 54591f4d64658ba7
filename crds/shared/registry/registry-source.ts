/** A source of a registry as a field of MCPRegistry. */
import { headerName } from '../headers.ts'
import { limits } from '../limits.ts'
import { configMapKeyRef, secretKeyRef } from '../references.ts'
import { defaulted, duration, label, list, map, object, type Reader, Type, text, url } from '../schema.ts'

/** Claims of a source or a registry. */
export const claims = (readBy: Reader, description: string) =>
  Type.Optional(map(description, text(readBy, 'The value.', { max: limits.text }), { max: 32 }))

const patterns = (what: string) => {
  const globs = (description: string) =>
    Type.Optional(list(description, text('registry', 'A pattern.', { min: 1, max: limits.name })))
  return Type.Optional(
    object(`By ${what}.`, {
      include: globs('Kept; absent: all.'),
      exclude: globs('Left out, even if `include` matches.'),
    }),
  )
}

const git = (readBy: Reader) =>
  object(
    'A file in a git repository.',
    {
      repository: text(readBy, 'URL of the repository.', { min: 1, max: limits.url }),
      branch: Type.Optional(text(readBy, 'Branch.', { min: 1, max: limits.name })),
      tag: Type.Optional(text(readBy, 'Tag.', { min: 1, max: limits.name })),
      commit: Type.Optional(text(readBy, 'Commit.', { min: 1, max: limits.name })),
      path: defaulted(text(readBy, 'File in the repository.', { min: 1, default: 'registry.json' })),
      auth: Type.Optional(
        object('Credentials.', {
          username: text(readBy, 'User name.', { min: 1, max: limits.name }),
          passwordSecretRef: secretKeyRef(readBy, 'Password or token.'),
        }),
      ),
    },
    {
      rules: [
        {
          rule: '(has(self.branch) ? 1 : 0) + (has(self.tag) ? 1 : 0) + (has(self.commit) ? 1 : 0) <= 1',
          message: 'set at most one of branch, tag and commit',
        },
      ],
    },
  )

const api = (readBy: Reader) =>
  object('Another registry.', {
    endpoint: url(readBy, 'Base URL, without `/v0.1`.'),
    timeout: defaulted(duration(readBy, 'Longest wait for an answer.', { default: '10s' })),
    headers: Type.Optional(
      list(
        'Headers whose values are in Secrets.',
        object('A header.', {
          name: headerName(readBy, 'Name of the header.'),
          valueSecretRef: secretKeyRef(readBy, 'Where the value is.'),
        }),
        // That names differ in more than case costs too much in CEL here: the configuration's own check tells.
        { type: { map: ['name'] } },
      ),
    ),
  })

const file = object(
  'A registry file.',
  {
    configMapRef: Type.Optional(
      configMapKeyRef('operator', 'A ConfigMap that holds the file.', { key: 'registry.json' }),
    ),
    path: Type.Optional(text('registry', 'Path in the pod.', { min: 1 })),
    url: Type.Optional(url('registry', 'Where it is fetched.')),
    data: Type.Optional(text('registry', 'The file itself (JSON).', { min: 1, max: limits.file })),
    timeout: Type.Optional(duration('registry', 'Longest wait for the URL; 30s when left out.')),
  },
  {
    rules: [
      {
        rule: '(has(self.configMapRef) ? 1 : 0) + (has(self.path) ? 1 : 0) + (has(self.url) ? 1 : 0) + (has(self.data) ? 1 : 0) == 1',
        message: 'set exactly one of configMapRef, path, url and data',
      },
      { rule: '!has(self.timeout) || has(self.url)', message: 'timeout is for url' },
    ],
  },
)

const kubernetes = (readBy: Reader) =>
  object(
    'MCP servers of the cluster.',
    {
      namespaces: Type.Optional(
        list(
          'Namespaces that are read. Absent: that of this object.',
          text(readBy, 'A namespace.', { min: 1, max: limits.label }),
          {
            max: 256,
          },
        ),
      ),
    },
    { readBy },
  )

const SOURCE_TYPES = ['git', 'api', 'file', 'managed', 'kubernetes']
const count = (fields: readonly string[]) => fields.map((field) => `(has(self.${field}) ? 1 : 0)`).join(' + ')

/** Where a registry's entries come from. */
export const source = object(
  'A source of entries.',
  {
    name: label('registry', 'Unique name.'),
    git: Type.Optional(git('registry')),
    api: Type.Optional(api('registry')),
    file: Type.Optional(file),
    managed: Type.Optional(object('Entries are published through the admin API.', {}, { readBy: 'registry' })),
    kubernetes: Type.Optional(kubernetes('registry')),
    syncPolicy: Type.Optional(
      object('When the source is read.', { interval: duration('registry', 'Time between two looks at the source.') }),
    ),
    filter: Type.Optional(object('Which entries are kept.', { names: patterns('name'), tags: patterns('tag') })),
    claims: claims('registry', 'Claims of the source; entries of git, api and file sources inherit them.'),
  },
  {
    rules: [
      { rule: `${count(SOURCE_TYPES)} == 1`, message: `set exactly one of ${SOURCE_TYPES.join(', ')}` },
      {
        rule: '!has(self.syncPolicy) || has(self.git) || has(self.api) || has(self.file)',
        message: 'syncPolicy is for git, api and file',
      },
    ],
  },
)
