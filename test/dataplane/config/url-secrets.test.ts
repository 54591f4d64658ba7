import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { withoutUrlSecrets } from '../../../dataplane/config/check/url.ts'

for (const [text, expected] of [
  ['https://a.example/mcp?key=s3cret', 'https://a.example/mcp'],
  ['https://user:s3cret@a.example:8443/mcp#s3cret', 'https://a.example:8443/mcp'],
  ['https://user:s3@cret@a.example', 'https://a.example'],
  ['https://a.example?s3cret', 'https://a.example'],
  ['https://a.example/x@y/z', 'https://a.example/x@y/z'],
  [
    "fatal: unable to access ‘x’ 'https://a.example/r.git?t=s3cret/': no",
    "fatal: unable to access ‘x’ 'https://a.example/r.git': no",
  ],
  ['{"url":"https://a.example/?k=s3cret","b":"redis://:s3cret@h:1"}', '{"url":"https://a.example/","b":"redis://h:1"}'],
  ['"it says \\"https://a.example/?k=s3cret\\" twice"', '"it says \\"https://a.example/\\" twice"'],
  ['stdio://ns/pod-0/mcp', 'stdio://ns/pod-0/mcp'],
  ['what? no URL @ all', 'what? no URL @ all'],
] as const)
  test(text, () => assert.is(withoutUrlSecrets(text), expected))

test('the time for a long hostile text is linear', () => {
  const long = '://a@?'.repeat(200_000)
  assert.ok(withoutUrlSecrets(long).length < long.length)
})

test.run()
