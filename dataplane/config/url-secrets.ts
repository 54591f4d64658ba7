/** The part of a URL from `://` on, without white space, quote, bracket and backslash. Linear. */
const REST_OF_URL = /:\/\/[^\s"'<>\\]+/g

/** Removes the parts of URLs that hold keys: user name and password, query and fragment. */
export const withoutUrlSecrets = (text: string): string =>
  text.includes('://') ? text.replace(REST_OF_URL, withoutSecrets) : text

function withoutSecrets(rest: string): string {
  const end = rest.search(/[?#]/)
  const kept = end === -1 ? rest : rest.slice(0, end)
  const slash = kept.indexOf('/', '://'.length)
  const authority = slash === -1 ? kept : kept.slice(0, slash)
  const at = authority.lastIndexOf('@')
  return at === -1 ? kept : `://${kept.slice(at + 1)}`
}
