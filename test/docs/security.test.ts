/** Checks that each bound and share in docs/security.md equals its constant in the code. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { documentDefaults } from '../../crds/settings/gateway/defaults.ts'
import { memoryParts } from '../../dataplane/authserver/store/memory-store.ts'
import { DEFAULT_BODY_BYTES, DEFAULT_MANAGED_BYTES, DEFAULT_SOURCE_BYTES } from '../../dataplane/config/registry.ts'
import {
  backendLimits,
  budgetLimits,
  connectionLimit,
  rateLimitBytes,
} from '../../dataplane/gateway/limits/memory-limits.ts'
import { callerLimits } from '../../dataplane/registry/api/request/caller-memory.ts'

const root = new URL('../../', import.meta.url)
const read = (file: string) => readFileSync(new URL(file, root), 'utf8')
const page = read('docs/security.md').replace(/\s+/g, ' ')

/**
 * Returns the texts to search for a constant. If its file moved, all files of that room are searched, and all
 * declarations must agree.
 */
function readTexts(file: string, constant: string): readonly string[] {
  if (existsSync(new URL(file, root))) return [read(file)]
  const room = file.split('/').slice(0, 2).join('/')
  const texts = readdirSync(new URL(room, root), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => read(`${room}/${name}`))
  return texts.filter((text) => new RegExp(`^(?:export )?const ${constant}\\b`, 'm').test(text))
}

/** Returns the value of a constant in a file, or of a member of one (`LOGINS.burst`), that is written as arithmetic. */
function readConstant(file: string, name: string): number {
  const [constant = '', member] = name.split('.')
  const found = new Set(readTexts(file, constant).map((text) => valueIn(text, constant, member)))
  const [value] = found
  assert.ok(found.size === 1 && value !== undefined, `${file} has not one ${name}: ${[...found].join()}`)
  return value
}

function valueIn(text: string, constant: string, member: string | undefined): number | undefined {
  const found = new RegExp(`^(?:export )?const ${constant}(?:: [^=\\n]+)? = ([^\\n]+)`, 'm').exec(text)?.[1]
  const written = member === undefined ? found : new RegExp(`\\b${member}: ([^,}]+)`).exec(found ?? '')?.[1]
  if (written === undefined) return undefined
  const numbers = written.replace(/[A-Z][A-Z0-9_]*/g, (other) => String(valueIn(text, other, undefined)))
  if (!/^[\d_.\s()*/+-]+$/.test(numbers)) return undefined
  return new Function(`return ${numbers}`)() as number
}

const count = (number: number) => number.toLocaleString('en-US')
const kib = (bytes: number) => `${count(bytes / 1024)} KiB`
const mib = (bytes: number) => `${count(bytes / 1024 / 1024)} MiB`
const seconds = (ms: number) => count(ms / 1000)
const WORDS = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']
const spellNumber = (number: number) => WORDS[number] ?? count(number)

const GATEWAY = 'dataplane/gateway'
const STREAMS = `${GATEWAY}/sessions/streams/streams.ts`
const WAITING = `${GATEWAY}/call/suspended/suspended-calls.ts`
const QUESTIONS = `${GATEWAY}/call/suspended/questions.ts`
const CLIENTS = 'dataplane/authserver/clients'
const LIMIT = `${CLIENTS}/network-limit.ts`
const STORE = 'dataplane/authserver/store'
const UPSTREAM = 'dataplane/upstream-tokens/redis-store.ts'
const THROTTLE = 'dataplane/identity/introspection.ts'
const SOURCES = 'dataplane/registry/sources'
const READ = 'dataplane/registry/store/read'
const MIB = 1024 * 1024
const memory = 512 * MIB
const shares = memoryParts()

const lines: Readonly<Record<string, readonly string[]>> = {
  'a gateway and its callers': [
    `may hold three sixteenths of the container's memory limit (${mib(budgetLimits().total)} of the 512 that are rendered), one caller half of that (${mib(budgetLimits().share)};`,
    `| body of a POST to \`/mcp\` | ${mib(readConstant(`${GATEWAY}/endpoint/incoming/endpoint-exchange.ts`, 'LARGEST_BODY'))} | 413 |`,
    `| nesting of JSON | ${count(readConstant(`${GATEWAY}/mcp/json.ts`, 'DEEPEST'))} levels |`,
    `| a client's capabilities | ${kib(readConstant(`${GATEWAY}/endpoint/methods.ts`, 'MOST_CAPABILITIES'))};`,
    `| URIs of one listener or subscription | ${readConstant(`${GATEWAY}/endpoint/streams/subscribe.ts`, 'MOST_URIS')}, ${kib(readConstant(`${GATEWAY}/endpoint/streams/subscribe.ts`, 'MOST_URI_LENGTH'))} together; one of ${kib(readConstant(`${GATEWAY}/endpoint/catalog/prompts-and-resources.ts`, 'LONGEST_WATCHED'))} |`,
    `conversation | ${readConstant(QUESTIONS, 'MOST_REQUESTS')} open, ${kib(readConstant(QUESTIONS, 'MOST_REQUEST_LENGTH'))}; ${readConstant(`${GATEWAY}/backends/channel/conversation.ts`, 'MOST_OPEN')} |`,
    `| calls that wait for a person | ${readConstant(WAITING, 'MOST_OF_CALLER')} a caller, ${readConstant(WAITING, 'MOST_OF_BACKEND')} a backend, ${count(readConstant(WAITING, 'MOST'))} in all |`,
    `| events kept for clients that lose a stream | ${readConstant(STREAMS, 'MOST_EVENTS')} and ${mib(readConstant(STREAMS, 'MOST_BYTES'))} a session, ${mib(readConstant(STREAMS, 'MOST_BYTES_OF_ALL'))} and ${count(readConstant(STREAMS, 'MOST_OVER'))} streams`,
    `another replica | ${mib(readConstant(`${GATEWAY}/sessions/relay/relays.ts`, 'MOST_WAITING'))} each that are not acknowledged, ${mib(readConstant(`${GATEWAY}/sessions/relay/relays.ts`, 'MOST_SENT'))} in all`,
    `| an answer over stdio or SSE of 2024-11-05 | ${mib(readConstant(`${GATEWAY}/backends/channel/channel.ts`, 'LONGEST_LINE'))} |`,
    `| connections; of one address, or of a /48 of IPv6 | ${count(connectionLimit(memory))}, the last`,
    `; ${count(connectionLimit(memory) / 2)} (with 512 MiB) | closed at once |`,
    `| calls of one caller that are under way, without a token of one address or a /48 | ${readConstant(`${GATEWAY}/backends/connection/transport.ts`, 'MOST_CALLS') / 2} |`,
    `| resources that one client subscribes to at a server on stdio or SSE of 2024-11-05 | ${readConstant(`${GATEWAY}/backends/channel/channel-client.ts`, 'MOST_SUBSCRIBED')} |`,
    `where-it-is-counted) in memory | ${mib(rateLimitBytes(memory))} (with 512 MiB) |`,
    `| a query of tool search | ${count(readConstant(`${GATEWAY}/endpoint/tools/tool-search.ts`, 'LONGEST_QUERY'))} characters, of which ${readConstant(`${GATEWAY}/search/tool-index.ts`, 'MOST_WORDS')} words count |`,
    `| lists of backends and events that are not whole | ${mib(backendLimits(memory).total)}, one backend ${mib(backendLimits(memory).share)} (with 512 MiB) |`,
    `| capabilities of a backend | ${kib(readConstant(`${GATEWAY}/backends/session/era.ts`, 'MOST_CAPABILITIES'))}, ${kib(readConstant(`${GATEWAY}/backends/session/era.ts`, 'MOST_OF_SESSION'))} where a session has its own |`,
    `| what a client that listens leaves unread | ${kib(readConstant(`${GATEWAY}/endpoint/streams/subscribe.ts`, 'MOST_UNREAD'))} |`,
    `The rest of its body is read and discarded for at most ${spellNumber(readConstant('dataplane/server/listen/listen.ts', 'LONGEST_MS') / 1000)} seconds`,
  ],
  'an authorization server and strangers': [
    `those that within ${spellNumber(readConstant(LIMIT, 'LITTLE_MS') / 60_000)} minutes have used at most a fifth`,
    `| body of a request, in whatever pieces it comes | ${kib(readConstant('dataplane/authserver/endpoint/form.ts', 'BODY_BYTES'))},`,
    `| registrations of one network | 5 at once and one a second, of all networks together ${spellNumber(readConstant(LIMIT, 'OPEN_TIMES') + readConstant(LIMIT, 'RESERVE_TIMES'))} times as many; each ${kib(readConstant('dataplane/authserver/endpoint/register.ts', 'LARGE_BYTES'))} count as one more |`,
    `| redirect URIs of a client | ${readConstant(`${CLIENTS}/registration.ts`, 'MOST_REDIRECT_URIS')}, of ${count(readConstant(`${CLIENTS}/redirect-uris.ts`, 'LONGEST_URI'))} characters each and ${kib(readConstant(`${CLIENTS}/registration.ts`, 'LONGEST_URIS'))} together |`,
    `| clients that nobody has got a token for | ${count(readConstant(`${STORE}/record-store.ts`, 'MOST_CLIENTS'))}, in Redis and in memory (there ${mib(shares.records.clients)} at most with the others)`,
    `| logins that one network begins | ${readConstant('dataplane/authserver/index.ts', 'LOGINS.burst')} at once and ${spellNumber(1000 / readConstant('dataplane/authserver/index.ts', 'LOGINS.eachMs'))} a second, of all networks together`,
    `| people at the page that asks for consent | ${spellNumber(readConstant('dataplane/authserver/provider/provider.ts', 'LOGIN_TIME_S') / 60)} minutes;`,
    `| metadata documents of clients | ${mib(readConstant(`${CLIENTS}/client-documents.ts`, 'MOST_BYTES'))}, and as many as \`cimd.cacheMaxSize\` says (${documentDefaults.cacheMaxSize}; ${count(readConstant(`${CLIENTS}/client-documents.ts`, 'MOST_KEPT'))} at most) |`,
    `| marks of assertions that have been used, in memory | ${mib(shares.records.marks)},`,
    `| marks of assertions that authenticate clients; of proofs of possession | ${mib(shares.records.clientMarks)} each,`,
    `in Redis what their rate lets in: ${1000 / readConstant(`${CLIENTS}/client-assertion.ts`, 'CHECKS.eachMs')} a second of a network`,
    `| keys that clients were last seen with | ${kib(shares.records.clientKeys)} in memory; in Redis ${count(readConstant(`${STORE}/redis-store.ts`, 'KEYS_SEEN.count'))} and ${mib(readConstant(`${STORE}/redis-store.ts`, 'KEYS_SEEN.bytes'))} of one network |`,
    `| ended logins whose tokens are out | ${count(readConstant('dataplane/authserver/provider/revocations.ts', 'MOST_ENDED'))} |`,
    `| logins on their way through providers | ten minutes; in memory ${mib(shares.records.pending)} at most`,
    `takes more than ${count(readConstant('dataplane/authserver/account/user-keys.ts', 'MOST_STEPS'))} steps for it | one at a time, in a thread, for ${seconds(readConstant('dataplane/authserver/account/user-keys.ts', 'LONGEST_MATCH_MS'))} s at most |`,
    `| ${count(readConstant('dataplane/config/check/claim-matcher.ts', 'MOST_COST') / readConstant('dataplane/config/check/claim-matcher.ts', 'COSTLY'))} operations that may fail in loops over the longest list (\`==\` counts a hundredth); where texts of the claims are looked for in each other, ${count(readConstant('dataplane/config/check/claim-matcher.ts', 'LONGEST_SEARCHED'))} characters each |`,
    `a quarter of what is beyond ${mib(readConstant(`${STORE}/memory-store.ts`, 'IDLE'))}, at least ${mib(readConstant(`${STORE}/memory-store.ts`, 'LEAST_IN_ALL'))} and at most`,
    `a user has at most ${count(readConstant(`${STORE}/redis-store.ts`, 'MOST_KEPT_MEMBERS'))} logins, ${mib(readConstant(UPSTREAM, 'OF_USER.bytes'))} of tokens of providers and of keys, 1,000 consents in 1 MiB, and ${count(readConstant(`${STORE}/redis-clients.ts`, 'MOST_USED.count'))} clients that nobody used before, in ${mib(readConstant(`${STORE}/redis-clients.ts`, 'MOST_USED.bytes'))}.`,
    `count for their network, an IPv4 address or a /48 of IPv6: ${count(readConstant(UPSTREAM, 'OF_NETWORK.count'))} grants in ${mib(readConstant(UPSTREAM, 'OF_NETWORK.bytes'))}, as much of tokens of providers`,
    `A client that somebody has got a token for is kept for ${readConstant(`${CLIENTS}/clients.ts`, 'CLIENT_TTL_S') / 86_400} days`,
  ],
  'an identity provider and strangers': [
    `not introspected again for ${seconds(readConstant(THROTTLE, 'INACTIVE_MS'))} seconds (the last ${count(readConstant(THROTTLE, 'MOST_INACTIVE'))} are known)`,
    `may send ${readConstant(THROTTLE, 'BURST')} such tokens at once and one more every ${spellNumber(readConstant(THROTTLE, 'REFILL_MS') / 1000)} seconds`,
    `${spellNumber(readConstant(THROTTLE, 'MOST_AT_ONCE')).replace('e', 'E')} introspections run at a time`,
    `A thousand wait, ${readConstant(THROTTLE, 'MOST_PER_ADDRESS')} of one address; beyond that requests get 503`,
    `an unknown one at most every ${seconds(readConstant('dataplane/identity/issuer-keys.ts', 'COOLDOWN_MS'))} seconds`,
    `Answers of issuers may have ${mib(readConstant('dataplane/net/guarded-fetch.ts', 'MAX_BYTES'))} (introspection ${kib(readConstant('dataplane/identity/introspection.ts', 'MAX_BYTES'))}) and take ${seconds(readConstant('dataplane/net/guarded-fetch.ts', 'TIMEOUT_MS'))} seconds`,
  ],
  'a registry': [
    `| body of a request to the admin API | ${mib(DEFAULT_BODY_BYTES)} | \`limits.bodyBytes\` |`,
    `| bytes of one source | ${mib(DEFAULT_SOURCE_BYTES)} | \`limits.sourceBytes\` |`,
    `| entries of one source | ${count(readConstant(`${SOURCES}/format/budget.ts`, 'MOST_ENTRIES'))} |`,
    `| one entry; its document | ${mib(readConstant(`${SOURCES}/format/catalog-reader.ts`, 'LONGEST_ENTRY'))}; ${mib(readConstant(`${SOURCES}/format/read-entry.ts`, 'LARGEST_DOCUMENT'))} |`,
    `| a page of an API source | ${mib(readConstant(`${SOURCES}/http/poll-api.ts`, 'LARGEST_PAGE'))},`,
    `a source is read | ${seconds(readConstant('dataplane/registry/sync/heartbeat.ts', 'MOST_MISSES') * readConstant('dataplane/registry/sync/heartbeat.ts', 'CHECK_MS'))} s |`,
    `an eighth of its memory all together (${mib(callerLimits(memory, () => 1).total)} of 512), one caller half`,
    `| page of the catalog; of the admin API's entries | 100 and ${mib(readConstant(`${READ}/version-page.ts`, 'PAGE_BYTES'))} |`,
    `| versions of one name in one answer | ${count(readConstant(`${READ}/read.ts`, 'MOST_VERSIONS'))} and 8 MiB |`,
    `made at a time; that wait for that | ${readConstant(`${READ}/version-page.ts`, 'AT_ONCE')}; ${readConstant(`${READ}/version-page.ts`, 'MOST_WAITING')} | 503 |`,
    `made by the API | ${count(readConstant('dataplane/config/registry.ts', 'MOST_NAMED'))} each; as many, with ${mib(readConstant('dataplane/registry/store/publish/change-settings.ts', 'MOST_SETTINGS_BYTES'))} of settings |`,
    `| documents of one managed source | ${count(DEFAULT_MANAGED_BYTES / 1024 ** 3)} GiB`,
    `looked through for all | ${readConstant('dataplane/registry/api/request/body.ts', 'MOST_DETAILS')}; ${count(readConstant('dataplane/registry/api/request/body.ts', 'MOST_VALUES'))} |`,
  ],
  'the operator and authors': [
    `A message about a manifest has at most ${count(readConstant('operator/cluster/files/read.ts', 'LONGEST_MESSAGE'))} characters, a document at most ${readConstant('operator/cluster/files/document.ts', 'MOST_ERRORS')} syntax errors. A file may have ${mib(readConstant('operator/cluster/files/read.ts', 'LARGEST_FILE'))}`,
    `What is not checked within ${seconds(readConstant('operator/runtime/checks/checks.ts', 'DEADLINE_MS'))} seconds`,
    `Entities may have [${count(readConstant('dataplane/policy/entities.ts', 'MOST_ANCESTORS'))} others above them]`,
    `at most ${readConstant('dataplane/config/read/yaml.ts', 'MOST_ALIASES')} aliases in a configuration and ${count(readConstant('operator/cluster/files/document.ts', 'MOST_ALIASES'))} in a manifest`,
    `refused texts of more than ${Math.floor(readConstant('dataplane/config/read/aside.ts', 'LONGEST') / 1024)} KiB are read in a thread that ends with it (the first ${readConstant('dataplane/config/check/long-check.ts', 'MOST_FINDINGS')} findings are told)`,
    `Of ${count(readConstant(`${GATEWAY}/core/shared-view.ts`, 'MOST_CALLERS'))} callers, with ${mib(readConstant(`${GATEWAY}/core/shared-view.ts`, 'MOST_CALLER_BYTES'))} of claims`,
    `warnings of ${readConstant('operator/runtime/admission/reviewer.ts', 'LONGEST')} characters and ${count(readConstant('operator/runtime/admission/reviewer.ts', 'MOST_BYTES'))} bytes in all`,
  ],
  'a console and viewers': [
    `Reports of pods are kept for ten seconds, ${mib(readConstant('console/places/cluster.ts', 'MOST_REPORT_BYTES'))} of them`,
    `tokens for trying tools (${readConstant('console/mcp/tokens.ts', 'MOST')} of a session)`,
  ],
}

for (const [what, bounds] of Object.entries(lines))
  test(`the documented limits of ${what} are those of the code`, () => {
    assert.equal(
      bounds.filter((bound) => !page.includes(bound)),
      [],
    )
  })

test('memory storage enforces each limit of the table', () => {
  for (const [limit, bytes] of [
    ['256 MiB', 256 * MIB],
    ['512 MiB', 512 * MIB],
    ['1.4 GiB', Number.POSITIVE_INFINITY],
  ] as const) {
    const { records, tokens } = memoryParts(bytes)
    const { newClients: _part, ...pools } = records
    const inAll = Object.values(pools).reduce((sum, part) => sum + part, tokens)
    const row = new RegExp(`\\| ${limit}[^|]*\\| (\\d+) MiB \\| (\\d+) MiB[^|]*\\| (\\d+) MiB`).exec(page)
    assert.equal(
      row?.slice(1).map(Number),
      [inAll, records.grants, tokens].map((part) => Math.round(part / MIB)),
      limit,
    )
  }
})

test.run()
