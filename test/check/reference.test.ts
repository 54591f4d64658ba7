import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { referencePages } from '../../check/reference.ts'

const pages = referencePages()
/** The line of a table that tells a field. */
function line(page: string, section: string, field: string): string {
  const text = pages.get(page) ?? ''
  const start = text.indexOf(`\n## \`${section}\`\n`)
  assert.ok(start >= 0, `${page} has no section ${section}`)
  const end = text.indexOf('\n## ', start + 1)
  return (
    text
      .slice(start, end === -1 ? undefined : end)
      .split('\n')
      .find((one) => one.startsWith(`| \`${field}\` |`)) ?? ''
  )
}

test('a field is told with its type, whether it must be there, its limits and what it is', () => {
  assert.is(
    line('mcpoidcconfig.md', 'spec.inline', 'issuer'),
    '| `issuer` | text | **required** | at most 2048 characters; matches `^https?://[^\\s]+$` | Issuer, compared exactly with `iss`. |',
  )
  assert.match(
    line('mcpoidcconfig.md', 'spec.inline', 'audienceClaim'),
    /\| text \| `"aud"` \| at least 1, at most 256 /,
  )
  assert.match(line('mcpoidcconfig.md', 'spec.inline', 'clientSecretRef'), /\| `\{name, key\}` of a Secret \|/)
})

test('a field in a list, a map or a list of lists has a section of its own', () => {
  assert.match(line('gateway-file.md', 'backends[]', 'name'), /\*\*required\*\*/)
  assert.match(line('virtualmcpserver.md', 'spec.outgoingAuth.backends.*', 'type'), /`discovered`/)
})

test('what is refused says why, and what to set instead', () => {
  const refused = line('virtualmcpserver.md', 'spec.config', 'telemetry')
  assert.match(refused, /\*\*Refused\*\*: use spec\.telemetryConfigRef, with an MCPTelemetryConfig\./)
  assert.match(
    line('mcpexternalauthconfig.md', 'spec', 'type'),
    /`obo` is \*\*refused\*\*: .* use tokenExchange or xaa\./,
  )
})

test('rules across fields stand below their table', () => {
  assert.match(pages.get('mcpoidcconfig.md') ?? '', /\nRules:\n\n(- .*\n)*- issuer must be https, /)
})

test('every kind has a page, and the first page leads to all', () => {
  const index = pages.get('README.md') ?? ''
  for (const name of pages.keys()) if (name !== 'README.md') assert.ok(index.includes(`(${name})`), name)
  assert.is(pages.size, 15)
})

test.run()
