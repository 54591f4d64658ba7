/** Checks that the manifests in docs/authorization.md are served unchanged. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'
import { condition, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/authorization.md', import.meta.url), 'utf8')
const blocks = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const others = `kind: MCPGroup
metadata: {name: tools}
spec: {}
---
kind: MCPOIDCConfig
metadata: {name: company}
spec: {type: inline, inline: {issuer: https://idp.example.com}}
`

test('each shown form is valid for its kind', () => {
  assert.is(blocks.length, 4)
  for (const block of blocks)
    for (const [name, plan] of plansOfText(`${others}---\n${block}`)) {
      assert.is(condition(plan, 'Valid') ?? 'True ConfigValid', 'True ConfigValid', name)
      assert.is(condition(plan, 'ReferencesResolved') ?? 'True AllFound', 'True AllFound', name)
    }
})

test('explain prints what the first example promises', async () => {
  using folder = temporaryFolder()
  const tell = async (claims: object) => {
    let out = ''
    const io = {
      out: (part: string) => void (out += part),
      err: assert.unreachable,
      env: {},
      stop: AbortSignal.abort(),
    }
    const withGroup = (document: string) => document.replace(/^kind: /gm, 'apiVersion: portico.dev/v1beta1\nkind: ')
    folder.write('manifests/gateway.yaml', `${withGroup(others)}---\n${blocks[0]}`)
    const caller = folder.write('claims.json', JSON.stringify(claims))
    const argv = [
      'explain',
      join(folder.path, 'manifests'),
      '--caller',
      caller,
      '--tool',
      'github_merge',
      '--backend',
      'github',
    ]
    const code = await dispatch(argv, io)
    return { code, out }
  }
  const junior = await tell({ sub: 'eve', groups: ['engineering'] })
  assert.is(junior.code, 1)
  assert.match(junior.out, /denied: a policy forbids it\n {2}forbid: policies\/2: /)
  assert.is((await tell({ sub: 'sam', groups: ['engineering'], level: 3 })).code, 0)
})

test.run()
