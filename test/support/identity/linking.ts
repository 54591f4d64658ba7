import { secret } from '../../secrets/watch.ts'
import type { UserAgent } from './user-agent.ts'

/** A page that a browser has reached. */
export interface LoginPage {
  readonly status: number
  readonly text: string
  readonly headers: Headers
}

/** The form of a link's page; undefined if the page has none. */
export interface LinkForm {
  readonly action: string
  readonly fields: Record<string, string>
}

/** Returns the link in any kind of answer. */
export function linkIn(answer: unknown): string {
  const url = /http[^\s"\\]+\/oauth\/link\?ticket=[\w.-]+/.exec(JSON.stringify(answer))?.[0]
  if (url === undefined) throw new Error(`no link in ${JSON.stringify(answer)}`)
  secret(new URL(url).searchParams.get('ticket') ?? '')
  return url
}

const readPage = async (response: Response): Promise<LoginPage> => ({
  status: response.status,
  text: await response.text(),
  headers: response.headers,
})

/** Opens a link, and returns the page and its form. */
export async function openLink(
  agent: UserAgent,
  url: string,
): Promise<LoginPage & { readonly form: LinkForm | undefined }> {
  const page = await readPage(await agent.get(url))
  const action = /<form method="post" action="([^"]+)"/.exec(page.text)?.[1]
  const inputs = page.text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]+)"/g)
  const fields = Object.fromEntries([...inputs].map(([, name, value]) => [name, value]))
  return { ...page, form: action === undefined ? undefined : { action: new URL(action, url).href, fields } }
}

/** Sends the form, and follows redirects until `isEnd` holds or to the last page. */
export async function sendForm(
  agent: UserAgent,
  form: LinkForm | undefined,
  isEnd: (url: string) => boolean = () => false,
): Promise<LoginPage & { readonly url: string }> {
  if (form === undefined) throw new Error('the page has no form')
  const first = await agent.post(form.action, form.fields)
  const location = first.headers.get('location')
  if (location === null) return { ...(await readPage(first)), url: form.action }
  await first.body?.cancel()
  const { url, response } = await agent.follow(location, isEnd)
  return response === undefined
    ? { status: 0, text: '', headers: new Headers(), url }
    : { ...(await readPage(response)), url }
}

/** Completes all steps of a link. */
export async function follow(agent: UserAgent, url: string): Promise<LoginPage> {
  const { form, ...page } = await openLink(agent, url)
  return form === undefined ? page : sendForm(agent, form)
}
