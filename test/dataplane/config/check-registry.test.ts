import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { extend, filePath } from '../../../crds/settings/file-form.ts'
import { list, map, object, type SchemaNode } from '../../../crds/settings/schema.ts'
import { podTokenFindings } from '../../../dataplane/config/check/pod-token.ts'
import { checkRegistry } from '../../../dataplane/config/check/registry.ts'
import { type RegistryConfig, registryConfigSchema } from '../../../dataplane/config/registry.ts'

const good: RegistryConfig = {
  sources: [{ name: 'files', file: { path: 'a.json' } }],
  registries: [{ name: 'main', sources: ['files'] }],
  auth: { mode: 'anonymous' },
}
const [source] = good.sources as [RegistryConfig['sources'][number]]
const inCluster = (url: string) => ({
  name: 'files',
  kubernetes: { namespaces: ['a'], apiServer: { url, tokenFile: '/run/token', caFile: '/run/ca.crt' } },
})
const [registry] = good.registries as [RegistryConfig['registries'][number]]

for (const [what, change, pointers] of [
  ['nothing wrong', {}, []],
  [
    'what is for tokens in mode anonymous',
    { auth: { mode: 'anonymous', authz: {}, publicPaths: ['/registry/open'] } },
    ['/auth/authz', '/auth/publicPaths'],
  ],
  ['two sources of a name', { sources: [source, source] }, ['/sources/1/name']],
  [
    'an interval below a second',
    { sources: [{ ...source, syncPolicy: { interval: '999ms' } }] },
    ['/sources/0/syncPolicy/interval'],
  ],
  [
    'headers of a name in another case',
    {
      sources: [
        {
          name: 'files',
          api: {
            endpoint: 'https://a.example',
            headers: [
              { name: 'X-Key', valueFile: 'a' },
              { name: 'x-key', valueFile: 'b' },
            ],
          },
        },
      ],
    },
    ['/sources/0/api/headers/1/name'],
  ],
  ...(
    [
      'https://kubernetes.default.svc',
      'https://kubernetes.default.svc.cluster.local',
      'https://127.0.0.1:6443',
    ] as const
  ).map((url) => [`the API server ${url}`, { sources: [inCluster(url)] }, []] as const),
  ...(
    [
      'https://evil.example',
      'https://kubernetes.default.svc.evil.example',
      'http://kubernetes.default.svc',
      'https://kubernetes.default.svc:8443',
      'https://10.0.0.1',
    ] as const
  ).map(
    (url) => [`the token for ${url}`, { sources: [inCluster(url)] }, ['/sources/0/kubernetes/apiServer/url']] as const,
  ),
  ...[
    '/run/token',
    '/run/./x/../token',
    '../cluster/token',
    '/etc/portico/cluster/..data/token',
    '../cluster/..2026_11_29_01_02_03.4/token',
    '/var/run/secrets/kubernetes.io/serviceaccount/token',
    '/run/secrets/kubernetes.io/serviceaccount/token',
    '/proc/self/root/run/token',
    '/dev/fd/3',
  ].map(
    (token) =>
      [
        `the pod’s token at ${token} to anybody else`,
        {
          sources: [
            { ...source, file: { path: token } },
            { ...inCluster('https://kubernetes.default.svc'), name: 'k' },
            {
              name: 'a',
              api: { endpoint: 'https://a.example', headersFile: token, headers: [{ name: 'x', valueFile: token }] },
            },
            {
              name: 'g',
              git: { repository: 'https://a.example', path: token, auth: { username: 'u', passwordFile: token } },
              claims: { passwordFile: token },
            },
          ],
          auth: {
            mode: 'oauth',
            oauth: {
              providers: [
                {
                  name: 'p',
                  issuerUrl: 'https://a.example',
                  audience: 'a',
                  clientId: 'c',
                  clientSecretFile: token,
                  caCertPath: token,
                },
              ],
            },
          },
          database: { host: 'h', user: 'u', database: 'd', passwordFile: token, caFile: token },
          telemetry: {
            openTelemetry: { endpoint: 'https://a.example', sensitiveHeaders: [{ name: 'x', file: token }] },
          },
        },
        [
          '/sources/0/file/path',
          '/sources/2/api/headersFile',
          '/sources/2/api/headers/0/valueFile',
          '/sources/3/git/auth/passwordFile',
          '/auth/oauth/providers/0/clientSecretFile',
          '/database/passwordFile',
          '/telemetry/openTelemetry/sensitiveHeaders/0/file',
        ],
      ] as const,
  ),
  ['two registries of a name', { registries: [registry, registry] }, ['/registries/1/name']],
  ['a source that isn’t there', { registries: [{ name: 'a', sources: ['files', 'no'] }] }, ['/registries/0/sources/1']],
  ['a source twice', { registries: [{ name: 'a', sources: ['files', 'files'] }] }, ['/registries/0/sources/1']],
  [
    'origins',
    { cors: { origins: ['*', 'https://a.example', 'https://a.example/', 'a'] } },
    ['/cors/origins/2', '/cors/origins/3'],
  ],
] as const)
  test(`rules across fields: ${what}`, () => {
    const found = checkRegistry({ ...good, ...change } as RegistryConfig)
    assert.equal(
      found.map(({ pointer }) => pointer),
      pointers,
    )
  })

test('the pod’s token is refused in every member that names a file, whatever its name', () => {
  const keys = (use?: 'trust') => filePath('registry', 'A key.', use)
  const members = { keytab: keys(), roots: keys('trust') }
  const schema = extend(registryConfigSchema, {
    kerberos: object('One, in a list, and in a map.', {
      ...members,
      inList: list('Several.', object('One.', members)),
      inMap: map('By name.', keys()),
    }),
  })
  const token = '../cluster/token'
  const named = { keytab: token, roots: token }
  const value = { ...good, kerberos: { ...named, inList: [named], inMap: { 'a/b': token }, other: { keytab: token } } }
  assert.equal(
    podTokenFindings(value, schema).map(({ pointer }) => pointer),
    ['/kerberos/keytab', '/kerberos/inList/0/keytab', '/kerberos/inMap/a~1b'],
  )
})

test('every member whose name says that it is a path is declared as one', () => {
  const undeclared: string[] = []
  const walk = (node: SchemaNode | undefined, at: string, name: string): void => {
    if (node === undefined) return
    if (node.type === 'string' && node.namesFile === undefined && /(?:file|path)s?$/i.test(name)) undeclared.push(at)
    walk(node.items, at, name)
    if (typeof node.additionalProperties === 'object') walk(node.additionalProperties, `${at}/*`, '')
    for (const [child, inner] of Object.entries(node.properties ?? {})) walk(inner, `${at}/${child}`, child)
  }
  walk(registryConfigSchema as SchemaNode, '', '')
  // These are a path in a repository, paths of URLs, and a file that is written.
  assert.equal(undeclared.sort(), ['/audit/logFile', '/auth/publicPaths', '/sources/git/path'])
})

test.run()
