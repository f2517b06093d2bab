// For a page that is served: loads itself again once there is a newer one. The address, and so the view, stays.
{
  const PAUSE = 1000;
  const PAUSE_WITHOUT_ANSWER = 10_000;
  const own = document.querySelector("meta[name=gradviz-version]")?.getAttribute("content");
  const ask = async () => {
    let pause = PAUSE;
    try {
      const answer = document.hidden ? null : await fetch("version", { cache: "no-store" });
      if (answer?.ok && (await answer.text()) !== own) return location.reload();
    } catch {
      pause = PAUSE_WITHOUT_ANSWER;
    }
    return setTimeout(ask, pause);
  };
  setTimeout(ask, PAUSE);
}
