/** The owner of a bucket or object, or the initiator of an upload: the principal is id and name in one. */
import { escapeXml } from './xml/xml-text.ts'

export const ownerElement = (principal: string, element: 'Owner' | 'Initiator' = 'Owner'): string => {
  const name = escapeXml(principal)
  return `<${element}><ID>${name}</ID><DisplayName>${name}</DisplayName></${element}>`
}
