import { unwrap } from '../unwrap.ts'
import { openLink } from './linking.ts'
import type { UserAgent } from './user-agent.ts'

/** Returns the link to a key's page in any kind of answer. */
export function keyLinkIn(answer: unknown): string {
  const text = JSON.stringify(answer).replaceAll('&amp;', '&')
  const url = /http[^\s"\\]+\/oauth\/key\?provider=\w+&for=[\w-]+/.exec(text)?.[0]
  if (url === undefined) throw new Error(`no link in ${JSON.stringify(answer)}`)
  return url
}

/** Opens a key's page as its user, who signs in if necessary. */
export async function openKey(agent: UserAgent, url: string) {
  const first = await openLink(agent, url)
  if (first.form === undefined || first.form.fields['provider'] !== undefined) return first
  const sent = await agent.post(first.form.action, { ...first.form.fields, action: 'sign-in' })
  const { url: end } = await agent.follow(unwrap(sent.headers.get('location')), (at) => at.includes('/oauth/key?'))
  return openLink(agent, end)
}

/** Enters a key, and returns the next page. */
export async function enterKey(agent: UserAgent, url: string, key: string) {
  const { form } = await openKey(agent, url)
  const sent = await agent.post(unwrap(form).action, { ...unwrap(form).fields, key })
  const location = sent.headers.get('location')
  if (location === null) return { status: sent.status, text: await sent.text() }
  const page = await agent.get(new URL(location, unwrap(form).action).href)
  return { status: page.status, text: await page.text() }
}

/** Deletes the first key of the signed-in user. Returns the next page, or undefined if there is no key. */
export async function deleteKey(agent: UserAgent, issuer: string): Promise<string | undefined> {
  const text = await (await agent.get(`${issuer}/oauth/sessions`)).text()
  const [, token = ''] = /name="token" value="([^"]+)"/.exec(text) ?? []
  const [, id] = /name="delete-key" value="([^"]+)"/.exec(text) ?? []
  if (id === undefined) return undefined
  const sent = await agent.post(`${issuer}/oauth/sessions`, { token, 'delete-key': id })
  return sent.headers.get('location') ?? undefined
}
