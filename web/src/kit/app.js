// Sends forms marked with data-swap without leaving the page. The parts of the response that data-swap selects replace
// the same parts of this page. Without this script, or after an error, the form makes an ordinary page load.
;(() => {
  // True after an ordinary submit, while the browser loads the next page. The script must not change this page any more.
  let leaving = false
  let waiting
  // Puts the focused field back into the new part of the page, with its text and cursor.
  const keep = (typing) => {
    const twin = document.getElementById(typing.id)
    if (!twin || twin === typing) return
    if (twin.tagName === typing.tagName && typing.matches('input, textarea, select')) {
      if (!twin.hasAttribute('aria-invalid')) typing.removeAttribute('aria-invalid')
      for (const { name, value } of twin.attributes) typing.setAttribute(name, value)
      twin.replaceWith(typing)
    }
    document.getElementById(typing.id).focus()
  }
  const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  // Shows the seconds that remain of a wait, and ends with it.
  const countDown = async (part) => {
    const end = Date.now() + part.dataset.wait * 1000
    for (let left; (left = Math.ceil((end - Date.now()) / 1000)) > 0; await pause((end - Date.now()) / 1000 - left + 1)) {
      const [unit, length] = left <= 90 ? ['second', 1] : left <= 5400 ? ['minute', 60] : ['hour', 3600]
      const words = new Intl.NumberFormat(document.documentElement.lang, { style: 'unit', unit, unitDisplay: 'long' })
      part.querySelector('[role="timer"]').textContent = words.format(Math.ceil(left / length))
    }
  }
  // The form of a running swap. Its request contains what was typed before.
  let swapping = null
  const swap = async (form, submitter, tries = 1) => {
    swapping = form
    const selector = form.dataset.swap
    const body = new URLSearchParams(new FormData(form, submitter))
    // Reads the attribute instead of form.action, because a button named `action` would shadow that property.
    const action = submitter?.getAttribute('formaction') ?? form.getAttribute('action')
    for (const part of document.querySelectorAll(selector)) part.setAttribute('aria-busy', 'true')
    const answer = await fetch(action, { method: 'POST', body, headers: { accept: 'text/html' } })
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    if (leaving) return
    const fresh = [...page.querySelectorAll(selector)]
    const old = [...document.querySelectorAll(selector)]
    // After too many requests, shows the wait of the response and counts it down. Then sends the form again, including
    // text that was typed meanwhile. After 503, sends it again after a few seconds.
    const wait = page.querySelector('[data-wait]')
    if (fresh.length !== old.length && ((wait && answer.status === 429) || (answer.status === 503 && tries < 4))) {
      if (wait) {
        for (const part of old) part.removeAttribute('aria-busy')
        form.prepend(document.adoptNode(wait))
        wait.scrollIntoView({ block: 'nearest' })
        await countDown(wait)
        wait.remove()
      } else await pause(5)
      return leaving ? undefined : swap(form, submitter, tries + 1)
    }
    // The response is an error page without these parts, so the whole page is replaced.
    if (fresh.length !== old.length && !answer.ok && !answer.redirected) {
      document.documentElement.replaceWith(document.adoptNode(page.documentElement))
      void goOn()
      return document.getElementById('content')?.focus()
    }
    // The response is another page or has another address, so the browser navigates to it.
    if (fresh.length !== old.length || (answer.redirected && new URL(answer.url).pathname !== location.pathname)) return location.assign(answer.url)
    const typing = document.activeElement
    // Values that were typed while the request was running. They override the values in the response.
    const newer = [...form.elements]
      .filter((field) => field.matches('select, textarea, input:not([type="hidden"], [type="checkbox"], [type="radio"])'))
      .filter(({ name, value }) => body.has(name) && body.get(name) !== value)
      .map(({ name, value }) => [name, value])
    const ticks = [...form.elements]
      .filter(({ type, name, checked }) => type === 'checkbox' && checked !== body.has(name))
      .map(({ name, checked }) => [name, checked])
    const open = [...document.querySelectorAll('details[open]')].map((one) => one.querySelector('summary').textContent)
    // A part with data-keep is not replaced while the value of that attribute is the same.
    const stays = (part, other) => part.dataset.keep !== undefined && part.dataset.keep === other.dataset.keep
    for (const [at, part] of old.entries()) {
      if (stays(part, fresh[at])) part.removeAttribute('aria-busy')
      else part.replaceWith(document.adoptNode(fresh[at]))
    }
    for (const [name, value] of newer) if (form.elements[name]) form.elements[name].value = value
    for (const [name, ticked] of ticks) if (form.elements[name]?.type === 'checkbox') form.elements[name].checked = ticked
    swapping = null
    // The request has stored the older values, maybe after a draft with these.
    if (form.dataset.draft && newer.length + ticks.length > 0) {
      unsaved = form
      saveDraft()
    }
    document.dispatchEvent(new Event('swapped'))
    void goOn()
    for (const one of document.querySelectorAll('details')) if (open.includes(one.querySelector('summary').textContent)) one.open = true
    if (typing?.id) keep(typing)
    // Moves to the first wrong field, unless the reader is already in another field.
    const wrong = fresh.filter((part) => part.isConnected).map((part) => part.querySelector('[autofocus]'))
    if (!typing?.matches('input, select, textarea')) wrong.find(Boolean)?.focus()
    const said = document.getElementById('said')
    if (said) said.textContent = fresh.find((part) => part.dataset.says)?.dataset.says ?? ''
  }
  const send = (form, submitter) =>
    swap(form, submitter).catch(() => {
      if (leaving) return
      form.removeAttribute('data-swap')
      if (submitter) submitter.click()
      else form.submit()
    })
  let turn = Promise.resolve()
  document.addEventListener('submit', (event) => {
    const { target: form, submitter } = event
    if (!form.dataset.swap || submitter?.dataset.whole !== undefined) {
      // Prevents a second submit, because the response of the first one would be lost.
      if (leaving) return event.preventDefault()
      leaving = true
      clearTimeout(waiting)
      submitter?.setAttribute('aria-busy', 'true')
      return
    }
    event.preventDefault()
    turn = turn.then(() => send(form, submitter))
  })
  // A field marked with data-live presses the named button shortly after a change.
  const press = (id) => {
    if (id === undefined || leaving) return
    clearTimeout(waiting)
    waiting = setTimeout(() => document.getElementById(id)?.click(), 250)
  }
  document.addEventListener('input', ({ target }) => target.dataset.late === undefined && press(target.dataset.live))
  document.addEventListener('change', ({ target }) => target.dataset.late !== undefined && press(target.dataset.live))
  // A form marked with data-first presses the named button when the reader enters it for the first time.
  document.addEventListener('focusin', ({ target }) => {
    const form = target.form
    if (!form?.dataset.first || target.matches('button')) return
    press(form.dataset.first)
    delete form.dataset.first
  })
  // Stores what was typed into a form marked with data-draft: shortly after the last key, when the reader leaves a field,
  // and before the page is left or hidden.
  // One draft is sent after the other, so that none replaces a newer one. Only a page that is left does not wait.
  let unsaved = null
  let drafting
  let saving
  const saveDraft = (isLeft = false) => {
    clearTimeout(drafting)
    const form = unsaved ?? (isLeft && swapping?.dataset.draft ? swapping : null)
    if (!form || leaving) return
    if (saving && !isLeft) return void saving.then(() => saveDraft())
    unsaved = null
    const body = new URLSearchParams(new FormData(form))
    // The answer leads to the page, which nothing needs.
    const sent = fetch(form.dataset.draft, { method: 'POST', body, keepalive: true, redirect: 'manual' })
      .catch(() => {})
      .then(() => void (saving === sent && (saving = undefined)))
    saving = sent
  }
  document.addEventListener('input', ({ target: { form } }) => {
    if (!form?.dataset.draft) return
    unsaved = form
    clearTimeout(drafting)
    drafting = setTimeout(saveDraft, 400)
  })
  document.addEventListener('change', () => saveDraft())
  for (const event of ['beforeunload', 'pagehide']) addEventListener(event, () => saveDraft(true))
  document.addEventListener('visibilitychange', () => document.hidden && saveDraft(true))
  // In a field marked with data-enter, the Enter key presses the named button instead of the first one of the form.
  document.addEventListener('keydown', (event) => {
    const { enter } = event.target.dataset ?? {}
    if (event.key !== 'Enter' || event.isComposing || enter === undefined) return
    event.preventDefault()
    document.getElementById(enter)?.click()
  })
  // Resets busy buttons when the page is shown again, for example with the back button.
  addEventListener('pageshow', () => {
    leaving = false
    for (const button of document.querySelectorAll('button[aria-busy]')) button.removeAttribute('aria-busy')
  })
  // Loads this page again with GET, without sending its form again.
  const load = () => location.replace(location.pathname + location.search)
  // Polls a page with data-refresh and shows the new state, until the page no longer asks for it.
  const again = async () => {
    const seconds = Number(document.querySelector('main').dataset.refresh)
    if (!seconds || document.querySelector('[data-wait]')) return
    await pause(seconds)
    // Waits while a field is focused or has unsaved text, because the replacement would discard it.
    const fields = [...document.querySelectorAll('main input:not([type="hidden"]), main textarea')]
    if (fields.some((field) => field === document.activeElement || field.value !== field.defaultValue)) return again()
    const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'manual' })
    // The page now redirects, perhaps to the seller's site, which only the browser itself can follow.
    if (answer.type === 'opaqueredirect' || answer.headers.has('refresh')) return load()
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    const fresh = page.querySelector('main')
    // The new state needs further scripts. The content security policy of this page does not allow them, so the page is loaded again.
    if (!fresh || page.scripts.length > document.scripts.length) return load()
    const before = document.querySelector('h1').textContent
    document.querySelector('main').replaceWith(document.adoptNode(fresh))
    localise()
    document.title = page.title
    const heading = document.querySelector('h1').textContent
    const said = document.getElementById('said')
    if (said && heading !== before) said.textContent = heading
    void goOn()
    return again()
  }
  again().catch(load)
  // Counts the wait of this page down. Then presses the button that the wait names, or loads the page again. On an error
  // page the button sends the form that was not handled. On the checkout page it only asks for the price.
  const counted = new WeakSet()
  const goOn = async () => {
    const part = document.querySelector('[data-wait]')
    if (!part || counted.has(part)) return
    counted.add(part)
    await countDown(part)
    if (leaving || !part.isConnected) return
    if (part.dataset.then) document.getElementById(part.dataset.then)?.click()
    else load()
  }
  void goOn()
  // Shows dates in the time zone of the reader, and names the zone. The server renders them in UTC.
  const localise = () => {
    const { lang } = document.documentElement
    if (/^(Etc\/)?UTC$/.test(Intl.DateTimeFormat().resolvedOptions().timeZone)) return
    const written = (options, at) => new Intl.DateTimeFormat(lang, options).format(at)
    for (const time of document.querySelectorAll('time[datetime]')) {
      const at = new Date(time.dateTime)
      const clock = { hour: 'numeric', minute: '2-digit', timeZoneName: 'short' }
      time.textContent = written(time.dataset.clock === undefined ? { dateStyle: 'medium' } : clock, at)
      time.title = written({ dateStyle: 'full', timeStyle: 'long' }, at)
    }
    const zone = new Intl.DateTimeFormat(lang, { timeZoneName: 'longGeneric' }).formatToParts().find(({ type }) => type === 'timeZoneName')
    for (const part of document.querySelectorAll('[data-zone]')) part.textContent = part.dataset.zone + zone.value
  }
  localise()
  document.addEventListener('swapped', localise)
  // Scrolls the sections of the portal, which are one row on a phone, until the current one is visible.
  const current = document.querySelector('.who + nav [aria-current]')
  if (current) current.parentElement.scrollLeft = current.offsetLeft - 24
  // Presses the button marked with data-press. Without this script, the reader presses it.
  document.querySelector('[data-press]')?.click()
  const copy = async ({ target }) => {
    const button = target.closest?.('[data-copy]')
    if (!button) return
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent)
    const said = document.getElementById('said')
    if (said) said.textContent = button.dataset.says ?? ''
    // Marks the last value that was copied.
    for (const other of document.querySelectorAll('[data-copied]')) other.removeAttribute('data-copied')
    button.dataset.copied = ''
  }
  document.addEventListener('click', (event) => void copy(event))
})()
