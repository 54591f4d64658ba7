import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkRegistry } from '../../../dataplane/config/check/registry.ts'
import type { RegistryConfig } from '../../../dataplane/config/registry/registry.ts'

const good: RegistryConfig = {
  sources: [{ name: 'files', file: { path: 'a.json' } }],
  registries: [{ name: 'main', sources: ['files'] }],
  auth: { mode: 'anonymous' },
}
const [source] = good.sources as [RegistryConfig['sources'][number]]
const [registry] = good.registries as [RegistryConfig['registries'][number]]

for (const [what, change, pointers] of [
  ['nothing wrong', {}, []],
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

test.run()
