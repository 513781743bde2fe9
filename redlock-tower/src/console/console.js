"use strict";
(() => {
  const main = document.querySelector("main");
  const news = document.getElementById("news");
  const TEXT = 3;
  let heard = Date.now();

  const say = (text) => {
    if (news.textContent !== text) news.textContent = text;
  };

  // Changes what differs and keeps the rest: a selection stays, and a screen reader keeps its place.
  const update = (old, fresh) => {
    if (old.nodeType === TEXT) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    children(old, fresh);
  };

  const children = (old, fresh) => {
    const before = [...old.childNodes];
    const after = [...fresh.childNodes];
    after.forEach((node, index) => {
      const there = before[index];
      if (!there) old.append(document.importNode(node, true));
      else if (there.nodeName !== node.nodeName) there.replaceWith(document.importNode(node, true));
      else update(there, node);
    });
    before.slice(after.length).forEach((node) => node.remove());
  };

  const listen = () => {
    const source = new EventSource("?events");
    source.onmessage = (event) => {
      heard = Date.now();
      // Parsed apart from this page: nothing in it runs or loads.
      children(main, new DOMParser().parseFromString(event.data, "text/html").body);
      say("Live.");
    };
    // A stream that has ended is opened again by itself; one that was refused is not.
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    };
  };

  setInterval(() => {
    if (Date.now() - heard < 5000) return;
    say(`No news since ${new Date(heard).toLocaleTimeString()}: this page shows what was true then.`);
  }, 1000);
  listen();
})();
